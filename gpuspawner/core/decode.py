"""Kubernetes objects, as the API sends them, to the few facts of them that matter. Total over any JSON.

What cannot be read is left out, never guessed and never an error: one broken object of someone else must not take the
form away from everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpuspawner.core.inventory import Node, Pod, Taint
from gpuspawner.core.quantity import QuantityError, to_millis, to_units

_FINISHED = frozenset({"Succeeded", "Failed"})


def node(raw: object) -> Node:
    """Return what matters of a v1 Node; a node without a name has an empty one."""
    metadata, spec, status = _parts(raw)
    return Node(
        name=_text(metadata.get("name")),
        labels=_texts(metadata.get("labels")),
        taints=tuple(_taints(spec.get("taints"))),
        allocatable=_resources(status.get("allocatable")),
        capacity=_resources(status.get("capacity")),
        schedulable=spec.get("unschedulable") is not True and _is_ready(status.get("conditions")),
    )


def pod(raw: object) -> Pod | None:
    """Return what matters of a v1 Pod, None when it has finished: it holds nothing any more."""
    metadata, spec, status = _parts(raw)
    if _text(status.get("phase")) in _FINISHED:
        return None
    return Pod(
        name=_text(metadata.get("name")),
        namespace=_text(metadata.get("namespace")),
        node=_text(spec.get("nodeName")) or None,
        requests=_pod_requests(spec),
    )


def _pod_requests(spec: Mapping[str, object]) -> dict[str, int]:
    """Return what the scheduler reserves for a pod.

    Init containers run one after the other and before the others, so the largest of them counts, not the sum; those
    that keep running (sidecars, ``restartPolicy: Always``) add to everything that starts after them. Amounts on the pod
    itself take the place of its containers'.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    total: Counter[str] = Counter()
    for container in _objects(spec.get("containers")):
        total.update(_requests(container.get("resources")))
    sidecars: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for container in _objects(spec.get("initContainers")):
        needed = Counter(_requests(container.get("resources")))
        if container.get("restartPolicy") == "Always":
            sidecars.update(needed)
            largest |= sidecars
        else:
            largest |= needed + sidecars
    total.update(sidecars)
    total |= largest
    requests = {**total, **_resources(_object(spec.get("resources")).get("requests"))}
    for name, number in _resources(spec.get("overhead")).items():
        requests[name] = requests.get(name, 0) + number
    return requests


def _requests(resources: object) -> dict[str, int]:
    """Return a container's requests; Kubernetes lets a limit without a request stand for both."""
    asked = _object(resources)
    return {**_resources(asked.get("limits")), **_resources(asked.get("requests"))}


def _resources(raw: object) -> dict[str, int]:
    """Return resource name → whole base units, without what is no quantity."""
    found: dict[str, int] = {}
    for name, value in _object(raw).items():
        try:
            found[name] = to_millis(value) if name == "cpu" else to_units(value)
        except QuantityError:
            continue
    return found


def _taints(raw: object) -> Iterable[Taint]:
    for taint in _objects(raw):
        if key := _text(taint.get("key")):
            yield Taint(key=key, effect=_text(taint.get("effect")), value=_text(taint.get("value")))


def _is_ready(conditions: object) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in _objects(conditions)
    )


def _parts(raw: object) -> tuple[Mapping[str, object], Mapping[str, object], Mapping[str, object]]:
    whole = _object(raw)
    return _object(whole.get("metadata")), _object(whole.get("spec")), _object(whole.get("status"))


def _object(raw: object) -> dict[str, object]:
    """Return a JSON object, an empty one for anything else."""
    return {key: value for key, value in raw.items() if isinstance(key, str)} if isinstance(raw, Mapping) else {}


def _objects(raw: object) -> list[dict[str, object]]:
    return [_object(entry) for entry in raw] if isinstance(raw, list) else []


def _text(raw: object) -> str:
    return raw if isinstance(raw, str) else ""


def _texts(raw: object) -> dict[str, str]:
    return {key: value for key, value in _object(raw).items() if isinstance(value, str)}
