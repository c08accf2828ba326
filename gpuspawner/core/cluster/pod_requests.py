"""What kube-scheduler reserves for a pod.

As Kubernetes 1.36 computes it: component-helpers/resource/helpers.go (``PodRequests``), after the API server's defaults
(pkg/apis/core/v1/defaults.go), so that a pod that was not created yet counts as it will.
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.units.quantity import QuantityError, parse_quantity

MilliAmounts = dict[str, int]
"""Resource name → thousandths of its base unit: the API server rounds each amount up to those before it keeps a pod
(``SetDefaults_ResourceList``), so sums of them are what kube-scheduler sees."""

_THOUSAND = 1000
_POD_LEVEL_RESOURCES = frozenset({"cpu", "memory"})
"""Resources that ``spec.resources`` may hold, with huge pages."""
_HUGE_PAGES = "hugepages-"
_NATIVE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE_PREFIXES = (_HUGE_PAGES, "attachable-volumes-")


def compute_requests(spec: Mapping[str, object], status: Mapping[str, object] | None = None) -> dict[str, int]:
    """Return resource name → whole base units (``cpu``: millicores); nothing of a resource that is not asked for.

    :param spec: of a v1 Pod.
    :param status: of a pod that is bound already: while it is resized, the larger of old and new counts.
    """
    statuses = _ResizeStatus(status or {})
    total = _sum_containers(spec, statuses)
    _apply_pod_level(total, as_dict(spec.get("resources")), statuses=statuses)
    _add(total, _read_amounts(spec.get("overhead")))
    return {name: whole for name, millis in total.items() if _is_counted(name) and (whole := _round_up(name, millis))}


class _ResizeStatus:
    """What a pod's status says of its resources."""

    def __init__(self, status: Mapping[str, object]) -> None:
        self._infeasible = any(
            condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
            for condition in as_dicts(status.get("conditions"))
        )
        containers = (*as_dicts(status.get("containerStatuses")), *as_dicts(status.get("initContainerStatuses")))
        self._containers = {as_text(each.get("name")): each for each in containers if "resources" in each}
        self._pod = status if "resources" in status else {}

    def get_container_amounts(self, container: Mapping[str, object], wanted: MilliAmounts) -> MilliAmounts:
        """Return what a container holds or is about to."""
        return self._compute_largest(self._containers.get(as_text(container.get("name"))), wanted)

    def get_pod_amounts(self, wanted: MilliAmounts) -> MilliAmounts:
        """Return what the pod as a whole holds or is about to."""
        return self._compute_largest(self._pod, wanted)

    def _compute_largest(self, found: Mapping[str, object] | None, wanted: MilliAmounts) -> MilliAmounts:
        if not found or not isinstance(found.get("resources"), dict):
            return wanted
        held = _read_amounts(as_dict(found.get("resources")).get("requests"))
        _raise_to(held, _read_amounts(found.get("allocatedResources")))
        if not self._infeasible:
            _raise_to(held, wanted)
        return held


def _sum_containers(spec: Mapping[str, object], statuses: _ResizeStatus) -> MilliAmounts:
    """Return what the containers need together.

    Init containers run one after the other and before the others, so the largest of them counts, not the sum; those
    that keep running (sidecars, ``restartPolicy: Always``) add to everything that starts after them.
    """
    total: MilliAmounts = {}
    for container in as_dicts(spec.get("containers")):
        _add(total, statuses.get_container_amounts(container, _read_container_requests(container)))
    sidecars: MilliAmounts = {}
    largest: MilliAmounts = {}
    for container in as_dicts(spec.get("initContainers")):
        needed = _read_container_requests(container)
        if container.get("restartPolicy") == "Always":
            needed = statuses.get_container_amounts(container, needed)
            _add(total, needed)
            _add(sidecars, needed)
            _raise_to(largest, sidecars)
        else:
            _add(needed, sidecars)
            _raise_to(largest, needed)
    _raise_to(total, largest)
    return total


def _apply_pod_level(total: MilliAmounts, resources: Mapping[str, object], *, statuses: _ResizeStatus) -> None:
    """Let amounts on the pod itself take the place of its containers' sum, in place.

    A limit on the pod stands for a request where neither the pod nor a container has one (``defaultPodRequests``).
    """
    wanted = _read_amounts(resources.get("requests"))
    for name, millis in _read_amounts(resources.get("limits")).items():
        if name not in wanted and (name not in total or name.startswith(_HUGE_PAGES)):
            wanted[name] = millis
    held = statuses.get_pod_amounts(wanted)
    for name, millis in wanted.items():
        if name in _POD_LEVEL_RESOURCES or name.startswith(_HUGE_PAGES):
            total[name] = held.get(name, millis)


def _read_container_requests(container: Mapping[str, object]) -> MilliAmounts:
    """Return a container's requests; Kubernetes lets a limit without a request stand for both."""
    resources = as_dict(container.get("resources"))
    return {**_read_amounts(resources.get("limits")), **_read_amounts(resources.get("requests"))}


def _is_counted(name: str) -> bool:
    """Tell whether kube-scheduler counts a resource (``IsScalarResourceName``)."""
    return name in _NATIVE_RESOURCES or "/" in name or name.startswith(_NATIVE_PREFIXES)


def _round_up(name: str, millis: int) -> int:
    return millis if name == "cpu" else -(-millis // _THOUSAND)


def _add(total: MilliAmounts, more: Mapping[str, int]) -> None:
    for name, millis in more.items():
        total[name] = total.get(name, 0) + millis


def _raise_to(total: MilliAmounts, least: Mapping[str, int]) -> None:
    for name, millis in least.items():
        if millis > total.get(name, 0):
            total[name] = millis


def _read_amounts(raw: object) -> MilliAmounts:
    """Return the quantities of a JSON object, without what is no quantity."""
    if not isinstance(raw, dict) or not raw:
        return {}
    return dict(_iter_readable(raw.items()))


def _iter_readable(items: Iterable[tuple[object, object]]) -> Iterable[tuple[str, int]]:
    for name, value in items:
        millis = _parse_millis(value) if isinstance(value, str | int | float) else None
        if millis is not None and isinstance(name, str):
            yield name, millis


# Typed, as True is no 1 here.
@lru_cache(maxsize=4096, typed=True)
def _parse_millis(value: str | float) -> int | None:
    try:
        return math.ceil(parse_quantity(value) * _THOUSAND)
    except QuantityError:
        return None
