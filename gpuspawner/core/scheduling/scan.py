"""Check whether kube-scheduler would bind a pod to one node or to any node, and find the obstacles if not.

:func:`check_node` checks one node. :func:`scan_nodes` checks all nodes, and is faster than a call of
:func:`check_node` for each node, because it checks the pod's constraints once per group of equivalent nodes.

The filters are those that Kubernetes 1.36 enables by default (pkg/scheduler/apis/config/v1/default_plugins.go). If a
filter needs data that gpuspawner does not read (namespace labels, claims, devices), the answer is UNKNOWN, not YES. The
condition Ready is not checked: like kube-scheduler, this module relies on the taints that a NotReady node gets.

A pod also fits on a node if it would fit without the node's pods of lower priority: kube-scheduler then preempts some
of these pods (framework/preemption/preemption.go). If the pod fits only after a preemption and its priority is unknown,
the answer is UNKNOWN. PodDisruptionBudgets only affect which pods kube-scheduler preempts, so the module ignores them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import accumulate
from operator import and_, or_

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.node_groups import EquivalentNodes, get_example
from gpuspawner.core.cluster.selectors import matches_node_affinity
from gpuspawner.core.cluster.state import PODS, Occupancy
from gpuspawner.core.scheduling.node_filters import (
    NodeFilters,
    ResourceNeeds,
    build_node_grouping,
    compute_needs,
    find_shortages,
    find_unknown_amounts,
    make_shortage,
    select_countable,
)
from gpuspawner.core.scheduling.pod_filters import GATED_OBSTACLES, UNKNOWN_PRIORITY, PodFilters, find_undecided
from gpuspawner.core.scheduling.results import (
    Answer,
    FitResult,
    Obstacle,
    Reason,
    ScanResult,
    derive_answer,
    sort_obstacles,
)


def check_node(pod: Pod, node: Node, *, occupancy: Occupancy) -> FitResult:
    """Return whether kube-scheduler could bind a pod to a node now.

    If the node has obstacles that do not depend on other pods, such as a taint, the result contains only these.

    :param node: a node of ``occupancy``.
    """
    return _NodeCheck(pod, occupancy).check(node)


def check_each_node(pod: Pod, occupancy: Occupancy) -> Iterator[tuple[Node, FitResult]]:
    """Yield all nodes, sorted by name, each with the result of :func:`check_node`."""
    check = _NodeCheck(pod, occupancy)
    for node in occupancy.nodes:
        yield node, check.check(node)


_Obstacles = tuple[Obstacle, ...]


class _NodeCheck:
    """Checks whether single nodes accept one pod."""

    def __init__(self, pod: Pod, occupancy: Occupancy) -> None:
        self._pod = pod
        self._occupancy = occupancy
        self._node_filters = NodeFilters(pod)
        self._floor = occupancy.find_floor(pod)

    def check(self, node: Node) -> FitResult:
        pod = self._pod
        obstacles = GATED_OBSTACLES if pod.constraints.is_gated else self._node_filters.find_obstacles(node)
        obstacles = obstacles or self.find_pod_obstacles(node)
        return FitResult(answer=derive_answer(obstacles), obstacles=obstacles)

    def find_pod_obstacles(self, node: Node) -> _Obstacles:
        """Return the reasons why a node that passes :class:`.node_filters.NodeFilters` does not accept the pod."""
        if self._floor is None:
            return self._compare(node, self._filters)
        if self._pod.preempts and not (self._pod.constraints.affinity or self._pod.attachments):
            return self._compare(node, self._filters_above_floor)
        # Check without preemption first: a preemption may remove pods that this pod's affinity requires, or pods that
        # share its volumes.
        found = self._compare(node, self._filters)
        if not found:
            return found
        above = self._compare(node, self._filters_above_floor)
        if not self._pod.preempts and derive_answer(above) is not Answer.NO:
            above = (UNKNOWN_PRIORITY,)
        return above if not above or derive_answer(found) is Answer.NO else found

    def _compare(self, node: Node, filters: PodFilters) -> _Obstacles:
        shortages = find_shortages(compute_needs(self._pod), node, requested=filters.get_requested(node.name))
        return sort_obstacles((*filters.find_obstacles(node), *shortages, *find_undecided(self._pod)))

    # PodFilters are slow to build, so each is built on first use.

    @cached_property
    def _filters(self) -> PodFilters:
        return PodFilters(self._pod, self._occupancy)

    @cached_property
    def _filters_above_floor(self) -> PodFilters:
        return PodFilters(self._pod, self._occupancy, floor=self._floor)


def scan_nodes(pod: Pod, occupancy: Occupancy, *, limit: int | None = None) -> ScanResult:
    """Return whether a pod fits on any node now, and how many copies of the pod fit on all nodes together.

    :param limit: count at most this number of copies; None for no limit.
    """
    floor = occupancy.find_floor(pod)
    if pod.preempts:
        return _scan_all(pod, occupancy, floor=floor, limit=limit)
    found = _scan_all(pod, occupancy, floor=None, limit=limit)
    if found.answer is not Answer.NO or floor is None or pod.constraints.is_gated:
        return found
    return _doubt_priority(_scan_all(pod, occupancy, floor=floor, limit=limit))


def _scan_all(pod: Pod, occupancy: Occupancy, *, floor: int | None, limit: int | None) -> ScanResult:
    scan = _Scan(pod, occupancy, floor=floor, limit=limit)
    for group in occupancy.node_groups.group_nodes(build_node_grouping(pod)):
        scan.add(group)
    if pod.constraints.is_gated:
        return ScanResult(answer=Answer.NO, places=0, places_exact=True, fit_if_empty=scan.fit_if_empty)
    return scan.build_result()


def _doubt_priority(found: ScanResult) -> ScanResult:
    """Turn YES into UNKNOWN for a pod that fits only after a preemption and whose priority is unknown."""
    if found.answer is Answer.NO:
        return found
    undecided = (UNKNOWN_PRIORITY.detail,)
    return replace(found, answer=Answer.UNKNOWN, places=0, places_exact=False, undecided=undecided)


def fits_somewhere(pod: Pod, occupancy: Occupancy) -> bool:
    """Return whether :func:`scan_nodes` would answer YES; stop at the first node that accepts the pod."""
    if pod.constraints.is_gated:
        return False
    floor = occupancy.find_floor(pod) if pod.preempts else None
    scan = _Scan(pod, occupancy, floor=floor, limit=0)
    for group in occupancy.node_groups.group_nodes(build_node_grouping(pod)):
        scan.add(group, stop_at_fit=True)
        if scan.has_fit:
            return True
    return False


def find_fitting_sizes(pod: Pod, others: Iterable[Pod], *, occupancy: Occupancy) -> list[bool]:
    """Return for each pod in ``others`` whether at least one node would accept ``pod`` with that pod's requests.

    The function assumes that ``pod`` preempts no other pods. If ``pod`` has scheduling gates, or a constraint that
    gpuspawner cannot check, all results are False.

    :param pod: a pending pod, or one that is not created yet; its constraints count, its own requests do not.
    :param others: pods whose requests to check; their constraints do not count.
    """
    all_needs = list(map(compute_needs, others))
    if pod.constraints.is_gated or find_undecided(pod):
        return [False] * len(all_needs)
    # Leave out resources that no node has: pods can request any names.
    offered = {PODS}.union(*(node.allocatable for node in occupancy.node_groups))
    numbers: dict[str, set[int]] = {PODS: {1}}
    for resource, number in {each for needs in all_needs for each in needs}:
        if resource in offered:
            numbers.setdefault(resource, set()).add(number)
    scan = _Scan(pod, occupancy, floor=None, limit=0)
    groups = occupancy.node_groups.group_nodes(build_node_grouping(pod))
    rooms = {room for group in groups for room in scan.list_free_amounts(group, tuple(numbers))}
    masks = {
        (resource, number): mask
        for (resource, wanted), column in zip(numbers.items(), zip(*rooms, strict=True), strict=False)
        for number, mask in _build_threshold_masks(column, wanted)
    }
    return [reduce(and_, (masks.get(each, 0) for each in needs)) > 0 for needs in all_needs]


def _build_threshold_masks(column: Sequence[int], numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each number with a bit mask: bit i is 1 if the column's amount at index i is at least the number."""
    ascending = sorted(numbers)
    highest = [0] * (len(ascending) + 1)
    for index, amount in enumerate(column):
        highest[bisect_right(ascending, amount)] |= 1 << index
    # Each amount has set its bit at the largest number that it reaches; accumulate copies the bit to smaller numbers.
    return zip(reversed(ascending), accumulate(reversed(highest[1:]), or_), strict=True)


class _Scan:
    def __init__(self, pod: Pod, occupancy: Occupancy, *, floor: int | None, limit: int | None) -> None:
        self.fit_if_empty = 0
        self._pod = pod
        self._occupancy = occupancy
        self._floor = floor
        # _NodeCheck also checks without preemption: a preemption may remove pods that the pod's affinity requires, or
        # pods that share its volumes.
        self._node_check = None if floor is None else _NodeCheck(pod, occupancy)
        self._all_needs: ResourceNeeds = compute_needs(pod)
        self._pod_undecided = find_undecided(pod)
        self._node_filters = NodeFilters(pod)
        self._pod_filters = PodFilters(pod, occupancy, floor=floor)
        self._limit = limit
        self._places = 0
        self._nodes: Counter[_Obstacles] = Counter()
        """Obstacles that depend on other pods and free resources → number of nodes that have them."""

    @property
    def has_fit(self) -> bool:
        return self._places > 0

    def add(self, group: EquivalentNodes, *, stop_at_fit: bool = False) -> None:
        """Compare the nodes of a group with the pod.

        :param stop_at_fit: stop at the first node that accepts the pod; only :attr:`has_fit` is right afterwards.
        """
        example = get_example(group)
        # Most groups of a cluster with several GPU types end at the node selector, so it comes first.
        if not matches_node_affinity(example, self._pod.constraints) or self._node_filters.find_obstacles(example):
            return
        # Look at one node only: the same amounts are unknown on all nodes of a group.
        needs = select_countable(self._all_needs, example)
        undecided = (*find_unknown_amounts(self._all_needs, example), *self._pod_undecided)
        lasting = tuple(each for each in needs if each[0] not in self._pod.attachments)
        kinds: Counter[tuple[_Obstacles, tuple[str, ...]]] = Counter()
        for node in group.values():
            from_pods, requested = self._look_at(node)
            lacking = _find_lacking(needs, node, requested=requested)
            self.fit_if_empty += not lacking or not _find_lacking(lasting, node, requested=_NOTHING)
            is_free = not (from_pods or lacking or undecided)
            if self._node_check is not None and self._needs_node_check(node, is_free=is_free):
                obstacles = self._node_check.find_pod_obstacles(node)
                self._nodes[obstacles] += 1
                self._places += not obstacles
            else:
                kinds[from_pods, lacking] += 1
                self._places += self._count_copies(needs, node, requested=requested) if is_free else 0
            if stop_at_fit and self.has_fit:
                return
        for (from_pods, lacking), number in kinds.items():
            self._nodes[sort_obstacles((*from_pods, *map(make_shortage, lacking), *undecided))] += number

    def _needs_node_check(self, node: Node, *, is_free: bool) -> bool:
        is_sharing = bool(self._pod.attachments) and node.name in self._pod_filters.special_nodes
        return bool(self._pod.constraints.affinity) or (is_sharing and not is_free)

    def _count_copies(self, needs: ResourceNeeds, node: Node, *, requested: Mapping[str, int]) -> int:
        # A node accepts only one copy of a pod with host ports, because the first copy takes the ports.
        if self._pod.constraints.host_ports:
            return 1
        return min((node.allocatable.get(name, 0) - requested.get(name, 0)) // number for name, number in needs)

    def _look_at(self, node: Node) -> tuple[_Obstacles, Mapping[str, int]]:
        """Return the obstacles that other pods cause on a node, and the amounts that they hold there."""
        filters = self._pod_filters
        if filters.is_inactive and node.name not in filters.special_nodes:
            return (), self._occupancy.get_requested(node.name, self._floor)
        return filters.find_obstacles(node), filters.get_requested(node.name)

    def list_free_amounts(self, group: EquivalentNodes, resources: Sequence[str]) -> Iterator[tuple[int, ...]]:
        """Yield one tuple for each node of a group: the node's free amounts, in the order of ``resources``.

        Skip nodes that would not accept the pod even if they had enough of all resources.
        """
        if self._node_filters.find_obstacles(get_example(group)):
            return
        for node in group.values():
            from_pods, requested = self._look_at(node)
            if not from_pods:
                yield tuple(node.allocatable.get(name, 0) - requested.get(name, 0) for name in resources)

    def build_result(self) -> ScanResult:
        answers = {derive_answer(obstacles) for obstacles in self._nodes}
        by_frequency = (obstacle for obstacles, _ in self._nodes.most_common() for obstacle in obstacles)
        unknown = (obstacle.detail for obstacle in by_frequency if obstacle.reason is Reason.UNDECIDED)
        constraints = self._pod.constraints
        places, exact = self._places, Answer.UNKNOWN not in answers
        if places and (constraints.affinity or constraints.anti_affinity or constraints.spread_constraints):
            places, exact = 1, False
        if self._limit is not None and places > self._limit:
            places, exact = self._limit, False
        return ScanResult(
            answer=next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO),
            places=places,
            places_exact=exact,
            fit_if_empty=self.fit_if_empty,
            undecided=tuple(dict.fromkeys(unknown)),
        )


_NOTHING: Mapping[str, int] = {}


def _find_lacking(needs: ResourceNeeds, node: Node, *, requested: Mapping[str, int]) -> tuple[str, ...]:
    """Return the resources of which a node has too little free."""
    allocatable = node.allocatable
    return tuple([name for name, number in needs if allocatable.get(name, 0) - requested.get(name, 0) < number])
