"""Reads fields of a pod's JSON, as the API server sent it. Missing fields and wrong types raise no errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuspawner.core.catalog.kueue import QUEUE_LABEL
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_message, as_text, find_condition

_KUEUE_GATES = "kueue.x-k8s.io/"
_DEFAULT_SCHEDULER = "default-scheduler"
_BUILTIN_RESOURCES = "kubernetes.io/"
"""Prefix of Kubernetes' own resources; other resources with a slash in their name count as devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The status of one container.

    :param node: name of the pod's node; empty if it has none.
    :param image: image reference in the pod's spec; the status may have another reference of the same image.
    :param waiting: reason in the state ``waiting`` (``ImagePullBackOff``); empty in other states.
    :param message: message in the state ``waiting``, else in the newest state ``terminated``; may be empty.
    :param end_message: message in the newest state ``terminated``; may be empty. While kubelet waits before it restarts
        a container, the state ``waiting`` has a message that does not say why the container ended.
    :param end_reason: reason in the newest state ``terminated`` (``OOMKilled``); empty if the container never
        terminated.
    :param exit_code: exit code in the newest state ``terminated``; None if the container never terminated.
    """

    name: str
    node: str
    image: str
    is_init: bool
    is_running: bool
    waiting: str
    message: str
    end_message: str
    end_reason: str
    exit_code: int | None
    restarts: int


def read_containers(pod: Mapping[str, object]) -> tuple[Container, ...]:
    """Return the containers in a pod's status, init containers first."""
    status, spec = as_dict(pod.get("status")), as_dict(pod.get("spec"))
    containers = []
    for kind in ("initContainer", "container"):
        images = {as_text(raw.get("name")): as_text(raw.get("image")) for raw in as_dicts(spec.get(f"{kind}s"))}
        for raw in as_dicts(status.get(f"{kind}Statuses")):
            image = images.get(as_text(raw.get("name"))) or as_text(raw.get("image"))
            node, is_init = as_text(spec.get("nodeName")), kind == "initContainer"
            containers.append(_read_container(raw, node=node, image=image, is_init=is_init))
    return tuple(containers)


def list_images(pod: Mapping[str, object]) -> frozenset[str]:
    """Return the image references in a pod's spec, including those of init containers."""
    spec = as_dict(pod.get("spec"))
    asked = (*as_dicts(spec.get("containers")), *as_dicts(spec.get("initContainers")))
    return frozenset(filter(None, (as_text(each.get("image")) for each in asked)))


def has_condition(pod: Mapping[str, object], kind: str) -> bool:
    """Return whether a pod's condition of the given type has the status "True"."""
    return find_condition(pod, kind).get("status") == "True"


def list_scheduling_gates(pod: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of a pod's ``schedulingGates``."""
    return tuple(as_text(each.get("name")) for each in as_dicts(as_dict(pod.get("spec")).get("schedulingGates")))


def is_queued_by_kueue(pod: Mapping[str, object]) -> bool:
    """Return whether a scheduling gate of Kueue holds a pod back."""
    return any(gate.startswith(_KUEUE_GATES) for gate in list_scheduling_gates(pod))


def is_bound(pod: Mapping[str, object]) -> bool:
    """Return whether a pod is bound to a node."""
    return bool(as_text(as_dict(pod.get("spec")).get("nodeName")))


def is_untouched(pod: Mapping[str, object]) -> bool:
    """Return whether a pod shows no trace of a scheduler: no node, no nominated node and no condition PodScheduled.

    The result is False for a pod with scheduling gates, which has the condition from its creation on (reason
    ``SchedulingGated``).
    """
    nominated = as_text(as_dict(pod.get("status")).get("nominatedNodeName"))
    return not (is_bound(pod) or nominated or list_scheduling_gates(pod) or find_condition(pod, "PodScheduled"))


def read_scheduler(pod: Mapping[str, object]) -> str:
    """Return the name of the scheduler that schedules a pod (``spec.schedulerName``)."""
    return as_text(as_dict(pod.get("spec")).get("schedulerName")) or _DEFAULT_SCHEDULER


def read_phase(pod: Mapping[str, object]) -> str:
    """Return a pod's phase, or "" if it is missing."""
    return as_text(as_dict(pod.get("status")).get("phase"))


def count_devices(pod: Mapping[str, object]) -> int:
    """Return the largest limit on an extended resource, such as GPUs, in one container of a pod.

    The result is 0 if no container has such a limit. Init containers do not count.
    """
    return max(_list_device_counts(pod), default=0)


def _list_device_counts(pod: Mapping[str, object]) -> Iterator[int]:
    for container in as_dicts(as_dict(pod.get("spec")).get("containers")):
        for name, number in as_dict(as_dict(container.get("resources")).get("limits")).items():
            is_device = "/" in name and not name.startswith(_BUILTIN_RESOURCES)
            if is_device and isinstance(number, str | int) and str(number).isascii() and str(number).isdigit():
                yield int(str(number)[:9])


def _read_container(raw: dict[str, object], *, node: str, image: str, is_init: bool) -> Container:
    state, last = as_dict(raw.get("state")), as_dict(raw.get("lastState"))
    waiting = as_dict(state.get("waiting"))
    ended = as_dict(state.get("terminated")) or as_dict(last.get("terminated"))
    exit_code = as_int(ended.get("exitCode"))
    return Container(
        name=as_text(raw.get("name")),
        node=node,
        image=image,
        is_init=is_init,
        is_running="running" in state,
        waiting=as_text(waiting.get("reason")),
        message=as_message(waiting.get("message")) or as_message(ended.get("message")),
        end_message=as_message(ended.get("message")),
        end_reason=as_text(ended.get("reason")) or ("Error" if exit_code else ""),
        exit_code=exit_code,
        restarts=as_int(raw.get("restartCount")) or 0,
    )


def read_queue_name(pod: Mapping[str, object]) -> str:
    """Return the name of a pod's LocalQueue, or an empty text if it has none.

    :param pod: v1 Pod as JSON, created or not yet created.
    """
    return as_text(as_dict(as_dict(pod.get("metadata")).get("labels")).get(QUEUE_LABEL))


def is_gated(pod: Mapping[str, object]) -> bool:
    """Return whether an existing pod has scheduling gates."""
    return bool(list_scheduling_gates(pod))


def has_other_gates(pod: Mapping[str, object]) -> bool:
    """Return whether a pod has scheduling gates that are not Kueue's."""
    return any(not gate.startswith(_KUEUE_GATES) for gate in list_scheduling_gates(pod))


def is_gated_on_creation(pod: Mapping[str, object]) -> bool:
    """Return whether Kueue will add a scheduling gate when a pod is created; False for a pod that already exists."""
    return bool(read_queue_name(pod)) and not as_dict(pod.get("metadata")).get("uid")
