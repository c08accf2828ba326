"""Compute a pod's effective requests: the resources that kube-scheduler reserves for it.

The rules are from Kubernetes 1.36, component-helpers/resource/helpers.go (``PodRequests``). The API server's defaults
(pkg/apis/core/v1/defaults.go) are applied first, so the result for a pod is the same before and after its creation.
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.units.quantity import QuantityError, parse_millis

MilliAmounts = dict[str, int]
"""Resource → thousandths of its base unit. The API server rounds each amount up to thousandths before it stores a pod
(``SetDefaults_ResourceList``), so kube-scheduler adds up rounded amounts."""

_THOUSAND = 1000
_POD_LEVEL_RESOURCES = frozenset({"cpu", "memory"})
"""Resources that a pod may request in its ``spec.resources`` for all its containers together. The pod may also request
huge pages there."""
_HUGE_PAGES = "hugepages-"
_NATIVE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE_PREFIXES = (_HUGE_PAGES, "attachable-volumes-")


def compute_requests(spec: Mapping[str, object], status: Mapping[str, object] | None = None) -> dict[str, int]:
    """Return a pod's requests as resource → whole base units (``cpu``: millicores), without zeros.

    :param status: ``status`` of a bound v1 Pod. During an in-place resize of the pod, the larger of the old and the new
        amount counts; if the resize is infeasible, the old amount counts.
    """
    statuses = _ResizeStatus(status or {})
    total = _sum_containers(spec, statuses)
    _apply_pod_level(total, as_dict(spec.get("resources")), statuses=statuses)
    _add(total, read_amounts(spec.get("overhead")))
    return {name: whole for name, millis in total.items() if _is_counted(name) and (whole := round_up(name, millis))}


class _ResizeStatus:
    """A pod's requests during an in-place resize, as kube-scheduler counts them.

    The old amount is in ``status``, the new amount in ``spec``. The larger of the two counts. If the resize is
    infeasible, only the old amount counts.
    """

    def __init__(self, status: Mapping[str, object]) -> None:
        self._infeasible = any(
            condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
            for condition in as_dicts(status.get("conditions"))
        )
        containers = (*as_dicts(status.get("containerStatuses")), *as_dicts(status.get("initContainerStatuses")))
        self._containers = {as_text(each.get("name")): each for each in containers if "resources" in each}
        self._pod = status if "resources" in status else {}

    def get_container_amounts(self, container: Mapping[str, object], requests: MilliAmounts) -> MilliAmounts:
        return self._compute_largest(self._containers.get(as_text(container.get("name"))), requests)

    def get_pod_amounts(self, requests: MilliAmounts) -> MilliAmounts:
        return self._compute_largest(self._pod, requests)

    def _compute_largest(self, status: Mapping[str, object] | None, requests: MilliAmounts) -> MilliAmounts:
        if not status or not isinstance(status.get("resources"), dict):
            return requests
        held = read_amounts(as_dict(status.get("resources")).get("requests"))
        _raise_to(held, read_amounts(status.get("allocatedResources")))
        if not self._infeasible:
            _raise_to(held, requests)
        return held


def _sum_containers(spec: Mapping[str, object], statuses: _ResizeStatus) -> MilliAmounts:
    """Return the requests of all containers together, as kube-scheduler adds them up.

    Init containers run one after another before the app containers. The result is therefore the larger of two amounts:
    the sum of the app containers, and the largest init container. Sidecars (``restartPolicy: Always``) keep running, so
    their requests add to those of all containers that start after them.
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
    """Replace the containers' sum in ``total`` with the requests of the pod as a whole (``spec.resources``).

    If ``spec.resources`` has a limit without a request, the limit is the request (``defaultPodRequests``), except for
    CPU or memory that a container requests.
    """
    requests = read_amounts(resources.get("requests"))
    for name, millis in read_amounts(resources.get("limits")).items():
        if name not in requests and (name not in total or name.startswith(_HUGE_PAGES)):
            requests[name] = millis
    held = statuses.get_pod_amounts(requests)
    for name in requests:
        if name in _POD_LEVEL_RESOURCES or name.startswith(_HUGE_PAGES):
            # An infeasible resize adds nothing: a resource that is new in ``spec`` counts as 0.
            total[name] = held.get(name, 0)


def _read_container_requests(container: Mapping[str, object]) -> MilliAmounts:
    """Return a container's requests; a limit without a request counts as a request: the API server sets it."""
    resources = as_dict(container.get("resources"))
    return {**read_amounts(resources.get("limits")), **read_amounts(resources.get("requests"))}


def _is_counted(name: str) -> bool:
    """Return whether kube-scheduler takes requests for a resource into account (``IsScalarResourceName``)."""
    return name in _NATIVE_RESOURCES or "/" in name or name.startswith(_NATIVE_PREFIXES)


def round_up(name: str, millis: int) -> int:
    """Return an amount in whole base units; for ``cpu``, in millicores."""
    return millis if name == "cpu" else -(-millis // _THOUSAND)


def _add(total: MilliAmounts, more: Mapping[str, int]) -> None:
    for name, millis in more.items():
        total[name] = total.get(name, 0) + millis


def _raise_to(total: MilliAmounts, least: Mapping[str, int]) -> None:
    for name, millis in least.items():
        if millis > total.get(name, 0):
            total[name] = millis


def read_amounts(raw: object) -> MilliAmounts:
    """Return the amounts of a v1 ResourceList, without malformed quantities."""
    amounts: MilliAmounts = {}
    for name, value in as_dict(raw).items():
        millis = _parse_millis(value) if isinstance(value, str | int | float) else None
        if millis is not None and isinstance(name, str):
            amounts[name] = millis
    return amounts


# ``typed=True``: without it, the cache would treat True, which is no quantity, as 1.
@lru_cache(maxsize=4096, typed=True)
def _parse_millis(value: str | float) -> int | None:
    try:
        return parse_millis(value)
    except QuantityError:
        return None
