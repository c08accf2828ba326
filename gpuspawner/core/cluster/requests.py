"""What kube-scheduler reserves for a pod.

As Kubernetes 1.36 computes it: component-helpers/resource/helpers.go (``PodRequests``), after the API server's defaults
(pkg/apis/core/v1/defaults.go), so that a pod that was not created yet counts as it will.
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.rawjson import mapping, mappings, text
from gpuspawner.core.units.quantity import QuantityError, parse_kubernetes

Amounts = dict[str, int]
"""Resource name → thousandths of its base unit: the API server rounds each amount up to those before it keeps a pod
(``SetDefaults_ResourceList``), so sums of them are what kube-scheduler sees."""

_THOUSAND = 1000
_ON_POD = frozenset({"cpu", "memory"})
"""Resources that ``spec.resources`` may hold, with huge pages."""
_HUGE_PAGES = "hugepages-"
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_PREFIXED = (_HUGE_PAGES, "attachable-volumes-")


def requests(spec: Mapping[str, object], status: Mapping[str, object] | None = None) -> dict[str, int]:
    """Return resource name → whole base units (``cpu``: millicores); nothing of a resource that is not asked for.

    :param spec: of a v1 Pod.
    :param status: of a pod that is bound already: while it is resized, the larger of old and new counts.
    """
    statuses = _Statuses(status or {})
    total = _of_containers(spec, statuses)
    _replace_by_pod_level(total, mapping(spec.get("resources")), statuses=statuses)
    _add(total, _amounts(spec.get("overhead")))
    return {name: whole for name, millis in total.items() if _counts(name) and (whole := _round_up(name, millis))}


class _Statuses:
    """What a pod's status says of its resources."""

    def __init__(self, status: Mapping[str, object]) -> None:
        self._infeasible = any(
            condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
            for condition in mappings(status.get("conditions"))
        )
        containers = (*mappings(status.get("containerStatuses")), *mappings(status.get("initContainerStatuses")))
        self._containers = {text(each.get("name")): each for each in containers if "resources" in each}
        self._pod = status if "resources" in status else {}

    def of_container(self, container: Mapping[str, object], wanted: Amounts) -> Amounts:
        """Return what a container holds or is about to."""
        return self._largest(self._containers.get(text(container.get("name"))), wanted)

    def of_pod(self, wanted: Amounts) -> Amounts:
        """Return what the pod as a whole holds or is about to."""
        return self._largest(self._pod, wanted)

    def _largest(self, found: Mapping[str, object] | None, wanted: Amounts) -> Amounts:
        if not found or not isinstance(found.get("resources"), dict):
            return wanted
        held = _amounts(mapping(found.get("resources")).get("requests"))
        _raise_to(held, _amounts(found.get("allocatedResources")))
        if not self._infeasible:
            _raise_to(held, wanted)
        return held


def _of_containers(spec: Mapping[str, object], statuses: _Statuses) -> Amounts:
    """Return what the containers need together.

    Init containers run one after the other and before the others, so the largest of them counts, not the sum; those
    that keep running (sidecars, ``restartPolicy: Always``) add to everything that starts after them.
    """
    total: Amounts = {}
    for container in mappings(spec.get("containers")):
        _add(total, statuses.of_container(container, _asked(container)))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in mappings(spec.get("initContainers")):
        needed = _asked(container)
        if container.get("restartPolicy") == "Always":
            needed = statuses.of_container(container, needed)
            _add(total, needed)
            _add(sidecars, needed)
            _raise_to(largest, sidecars)
        else:
            _add(needed, sidecars)
            _raise_to(largest, needed)
    _raise_to(total, largest)
    return total


def _replace_by_pod_level(total: Amounts, resources: Mapping[str, object], *, statuses: _Statuses) -> None:
    """Let amounts on the pod itself take the place of its containers' sum, in place.

    A limit on the pod stands for a request where neither the pod nor a container has one (``defaultPodRequests``).
    """
    wanted = _amounts(resources.get("requests"))
    for name, millis in _amounts(resources.get("limits")).items():
        if name not in wanted and (name not in total or name.startswith(_HUGE_PAGES)):
            wanted[name] = millis
    held = statuses.of_pod(wanted)
    for name, millis in wanted.items():
        if name in _ON_POD or name.startswith(_HUGE_PAGES):
            total[name] = held.get(name, millis)


def _asked(container: Mapping[str, object]) -> Amounts:
    """Return a container's requests; Kubernetes lets a limit without a request stand for both."""
    resources = mapping(container.get("resources"))
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _counts(name: str) -> bool:
    """Tell whether kube-scheduler counts a resource (``IsScalarResourceName``)."""
    return name in _NATIVE or "/" in name or name.startswith(_PREFIXED)


def _round_up(name: str, millis: int) -> int:
    return millis if name == "cpu" else -(-millis // _THOUSAND)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, millis in more.items():
        total[name] = total.get(name, 0) + millis


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, millis in least.items():
        if millis > total.get(name, 0):
            total[name] = millis


def _amounts(raw: object) -> Amounts:
    """Return the quantities of a JSON object, without what is no quantity."""
    if not isinstance(raw, dict) or not raw:
        return {}
    return dict(_readable(raw.items()))


def _readable(items: Iterable[tuple[object, object]]) -> Iterable[tuple[str, int]]:
    for name, value in items:
        millis = _millis(value) if isinstance(value, str | int | float) else None
        if millis is not None and isinstance(name, str):
            yield name, millis


# Typed, as True is no 1 here.
@lru_cache(maxsize=4096, typed=True)
def _millis(value: str | float) -> int | None:
    try:
        return math.ceil(parse_kubernetes(value) * _THOUSAND)
    except QuantityError:
        return None
