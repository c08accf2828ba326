"""Where in the whole cluster a pod fits: one pass over pools of nodes that are alike, with amounts column by column.

The answers are those of :func:`gpuspawner.core.scheduling.check.check_node` for each node, in a fraction of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import compress, repeat
from operator import and_, floordiv

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.node_affinity import matches_node_affinity
from gpuspawner.core.cluster.node_table import EquivalentNodes, NodeTable, make_picker
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.node_filters import NodeFilters, build_node_grouping
from gpuspawner.core.scheduling.pod_filters import GATED_OBSTACLES, PodFilters, find_undecided
from gpuspawner.core.scheduling.resources import (
    ResourceNeeds,
    compute_needs,
    find_shortages,
    find_unknown_amounts,
    make_shortage,
    select_countable,
)
from gpuspawner.core.scheduling.results import (
    Answer,
    Obstacle,
    ObstacleGroup,
    Reason,
    ScanResult,
    derive_answer,
    sort_obstacles,
)

_Obstacles = tuple[Obstacle, ...]
_Picker = Callable[[list[int]], Sequence[int]]

_MAX_CACHED_NEEDS = 64
"""Sizes of pods of which a pool remembers how many of its nodes are large enough."""


def scan_nodes(pod: Pod, occupancy: Occupancy, *, limit: int | None = None) -> ScanResult:
    """Return how a pod that waits, or does not exist yet, fits on all nodes together.

    :param limit: count places up to this number; None for all.
    """
    look = _Scan(pod, occupancy, limit=limit)
    for pool in occupancy.table.group_nodes(build_node_grouping(pod)):
        look.scan(pool)
    if pod.constraints.is_gated:
        return _build_gated_result(len(occupancy.table), fit_if_empty=look.fit_if_empty)
    return look.build_result()


def fits_somewhere(pod: Pod, occupancy: Occupancy) -> bool:
    """Tell whether :func:`scan_nodes` would answer YES, without looking at more than that takes."""
    if pod.constraints.is_gated:
        return False
    look = _Scan(pod, occupancy, limit=0)
    for pool in occupancy.table.group_nodes(build_node_grouping(pod)):
        if matches_node_affinity(pool.example, pod.constraints):
            look.scan(pool)
            if look.has_fit:
                return True
    return False


class _Scan:
    """What was seen of the pools so far.

    :ivar fit_if_empty: nodes that are large enough and have no obstacle of their own.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy, *, limit: int | None) -> None:
        self.fit_if_empty = 0
        self._pod = pod
        self._table: NodeTable = occupancy.table
        self._wanted: ResourceNeeds = compute_needs(pod)
        self._pod_undecided = find_undecided(pod)
        self._own = NodeFilters(pod)
        self._filters = PodFilters(pod, occupancy)
        rows = map(occupancy.table.find_row, self._filters.nominated_nodes)
        self._crowded = frozenset(row for row in rows if row is not None)
        self._limit = limit
        self._places = 0
        self._nodes: Counter[_Obstacles] = Counter()

    @property
    def has_fit(self) -> bool:
        """Tell whether there was a node without any obstacle."""
        return self._nodes[()] > 0

    def scan(self, pool: EquivalentNodes) -> None:
        """Look at the nodes of a pool."""
        own = self._own.find_obstacles(pool.example)
        if own:
            self._nodes[own] += len(pool)
            return
        # Of nodes that are alike, the same resources are uncounted.
        self._needs = select_countable(self._wanted, pool.example)
        self._undecided = (*find_unknown_amounts(self._wanted, pool.example), *self._pod_undecided)
        self.fit_if_empty += self._count_large_enough(pool)
        crowded = {row for row in self._crowded if row in pool}
        for pick, number, others in self._split_nodes(pool, crowded):
            self._scan_amounts(pick, number, others=others)
        for row in crowded:
            self._scan_nominated(self._table.get_by_row(row))

    def build_result(self) -> ScanResult:
        """Return what was seen."""
        groups = tuple(
            ObstacleGroup(nodes=nodes, obstacles=found) for found, nodes in self._nodes.most_common() if nodes
        )
        answers = {derive_answer(group.obstacles) for group in groups}
        unknown = (each for group in groups for each in group.obstacles if each.reason is Reason.UNDECIDED)
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
            groups=groups,
            undecided=tuple(dict.fromkeys(each.detail for each in unknown)),
        )

    def _count_large_enough(self, pool: EquivalentNodes) -> int:
        """Return how many nodes of a pool would have enough of everything if they were empty."""
        found = pool.cache.get(self._needs)
        if found is None:
            found = reduce(and_, self._build_masks(self._table.get_allocatable_column, pool.pick)).bit_count()
            if len(pool.cache) >= _MAX_CACHED_NEEDS:
                pool.cache.clear()
            pool.cache[self._needs] = found
        return found

    def _split_nodes(self, pool: EquivalentNodes, crowded: set[int]) -> Iterator[tuple[_Picker, int, _Obstacles]]:
        """Yield parts of a pool with the same obstacles from other pods: how to pick its values, and how many."""
        if self._filters.is_inactive and not crowded:
            yield pool.pick, len(pool), ()
            return
        parts: dict[_Obstacles, list[int]] = {}
        for row in pool.rows:
            if row not in crowded:
                parts.setdefault(self._filters.find_obstacles(self._table.get_by_row(row)), []).append(row)
        for others, rows in parts.items():
            yield make_picker(rows), len(rows), others

    def _scan_amounts(self, pick: _Picker, number: int, *, others: _Obstacles) -> None:
        enough = self._build_masks(self._table.get_free_column, pick)
        lacks: dict[_Obstacles, int] = {(): _make_byte_ones(number)}
        for (resource, _), mask in zip(self._needs, enough, strict=True):
            lacks = dict(_split_by_mask(lacks, mask, obstacle=make_shortage(resource)))
        for found, mask in lacks.items():
            self._nodes[sort_obstacles((*others, *found, *self._undecided))] += mask.bit_count()
        if not others and not self._undecided and () in lacks:
            self._count_places(lacks[()].to_bytes(number, "little"), pick)

    def _scan_nominated(self, node: Node) -> None:
        """Look at one node that is kept for other pods, as if they were there."""
        requested = self._filters.get_requested(node.name)
        lacks = find_shortages(self._needs, node, requested=requested)
        found = sort_obstacles((*self._filters.find_obstacles(node), *lacks, *self._undecided))
        self._nodes[found] += 1
        if not found:
            most = (
                (node.allocatable.get(resource, 0) - requested.get(resource, 0)) // number
                for resource, number in self._needs
            )
            self._places += 1 if self._pod.constraints.host_ports else min(most)

    def _count_places(self, fits: bytes, pick: _Picker) -> None:
        """Count how many copies of the pod the nodes that fit would take, to one more than the limit."""
        if self._pod.constraints.host_ports:  # a second copy finds the port taken
            self._places += sum(fits)
            return
        copies = [
            _divide_column(compress(pick(self._table.get_free_column(resource)), fits), number)
            for resource, number in self._needs
        ]
        on_each = map(min, *copies) if len(copies) > 1 else copies[0]
        if self._limit is None:
            self._places += sum(on_each)
            return
        for places in on_each:
            self._places += places
            if self._places > self._limit:
                break

    def _build_masks(self, column: Callable[[str], list[int]], pick: _Picker) -> list[int]:
        """Return for each need a number with a byte for each node: 1 where it has enough, else 0."""
        return [
            int.from_bytes(bytes(map(number.__le__, pick(column(resource)))), "little")
            for resource, number in self._needs
        ]


def _build_gated_result(number: int, *, fit_if_empty: int) -> ScanResult:
    groups = (ObstacleGroup(nodes=number, obstacles=GATED_OBSTACLES),) if number else ()
    return ScanResult(answer=Answer.NO, places=0, places_exact=True, fit_if_empty=fit_if_empty, groups=groups)


def _divide_column(column: Iterator[int], number: int) -> Iterator[int]:
    return column if number == 1 else map(floordiv, column, repeat(number))


def _make_byte_ones(number: int) -> int:
    """Return a number with this many bytes that are 1."""
    return int.from_bytes(b"\1" * number, "little")


def _split_by_mask(parts: dict[_Obstacles, int], mask: int, *, obstacle: Obstacle) -> Iterator[tuple[_Obstacles, int]]:
    """Yield each part twice, without those that are empty: where a mask is 1, and where it is 0 and the obstacle is."""
    for found, rows in parts.items():
        if enough := rows & mask:
            yield found, enough
        if enough != rows:
            yield (*found, obstacle), rows ^ enough
