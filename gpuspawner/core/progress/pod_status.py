"""What a pod says of itself, read from JSON of unknown shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuspawner.core.rawjson import mapping, mappings, text, whole

_KUEUE_GATES = "kueue.x-k8s.io/"
_OWN_RESOURCES = "kubernetes.io/"
"""Resources with a slash in the name that are no devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod, as kubelet tells of it.

    :param image: as the pod asks for it; kubelet resolves it to other names.
    :param waiting: why it waits, as kubelet codes it; empty unless it does.
    :param ended: why it ended last, as kubelet codes it; empty if it never did.
    :param exit_code: what it ended with last, None if it never did.
    """

    name: str
    image: str
    is_init: bool
    is_running: bool
    waiting: str
    message: str
    ended: str
    exit_code: int | None
    restarts: int


def containers(pod: Mapping[str, object]) -> tuple[Container, ...]:
    """Return the containers of a pod that kubelet tells of, those that prepare it first."""
    status, spec = mapping(pod.get("status")), mapping(pod.get("spec"))
    found = []
    for kind, is_init in (("initContainerStatuses", True), ("containerStatuses", False)):
        asked = {text(each.get("name")): text(each.get("image")) for each in mappings(spec.get(_specs(is_init)))}
        for each in mappings(status.get(kind)):
            name = text(each.get("name"))
            found.append(_container(each, image=asked.get(name) or text(each.get("image")), is_init=is_init))
    return tuple(found)


def images(pod: Mapping[str, object]) -> frozenset[str]:
    """Return the images that a pod asks for."""
    spec = mapping(pod.get("spec"))
    asked = (*mappings(spec.get("containers")), *mappings(spec.get("initContainers")))
    return frozenset(filter(None, (text(each.get("image")) for each in asked)))


def condition(pod: Mapping[str, object], kind: str) -> dict[str, object]:
    """Return a condition of a pod by its type, an empty one where there is none."""
    found = (each for each in mappings(mapping(pod.get("status")).get("conditions")) if each.get("type") == kind)
    return next(found, {})


def is_true(pod: Mapping[str, object], kind: str) -> bool:
    """Tell whether a condition of a pod holds."""
    return condition(pod, kind).get("status") == "True"


def gates(pod: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of what keeps a pod from being scheduled (``schedulingGates``)."""
    return tuple(text(each.get("name")) for each in mappings(mapping(pod.get("spec")).get("schedulingGates")))


def is_queued_by_kueue(pod: Mapping[str, object]) -> bool:
    """Tell whether it is Kueue that keeps a pod from being scheduled."""
    return any(gate.startswith(_KUEUE_GATES) for gate in gates(pod))


def is_bound(pod: Mapping[str, object]) -> bool:
    """Tell whether a pod has a node."""
    return bool(text(mapping(pod.get("spec")).get("nodeName")))


def phase(pod: Mapping[str, object]) -> str:
    """Return the phase of a pod, empty where none is told."""
    return text(mapping(pod.get("status")).get("phase"))


def device_count(pod: Mapping[str, object]) -> int:
    """Return how many devices of one kind a pod asks for, the most of any; 0 for none."""
    return max(_device_counts(pod), default=0)


def _device_counts(pod: Mapping[str, object]) -> Iterator[int]:
    for container in mappings(mapping(pod.get("spec")).get("containers")):
        for name, number in mapping(mapping(container.get("resources")).get("limits")).items():
            is_device = "/" in name and not name.startswith(_OWN_RESOURCES)
            if is_device and isinstance(number, str | int) and str(number).isascii() and str(number).isdigit():
                yield int(str(number)[:9])


def _specs(is_init: bool) -> str:
    return "initContainers" if is_init else "containers"


def _container(raw: dict[str, object], *, image: str, is_init: bool) -> Container:
    state, last = mapping(raw.get("state")), mapping(raw.get("lastState"))
    waiting = mapping(state.get("waiting"))
    ended = mapping(state.get("terminated")) or mapping(last.get("terminated"))
    exit_code = whole(ended.get("exitCode"))
    return Container(
        name=text(raw.get("name")),
        image=image,
        is_init=is_init,
        is_running="running" in state,
        waiting=text(waiting.get("reason")),
        message=text(waiting.get("message")) or text(ended.get("message")),
        ended=text(ended.get("reason")) or ("Error" if exit_code else ""),
        exit_code=exit_code,
        restarts=whole(raw.get("restartCount")) or 0,
    )
