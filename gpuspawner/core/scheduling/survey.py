"""Where in the whole cluster a pod fits: one pass over pools of nodes that are alike, with amounts column by column.

The answers are those of :func:`gpuspawner.core.scheduling.fit.check` for each node, in a fraction of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import compress, repeat
from operator import and_, floordiv

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.node_choice import admits
from gpuspawner.core.cluster.node_table import NodeTable, Pool, picker
from gpuspawner.core.cluster.occupancy import Occupancy
from gpuspawner.core.scheduling.amounts import Needs, counted, doubts, lacking, needs, shortage
from gpuspawner.core.scheduling.node_filters import NodeFilters, layout
from gpuspawner.core.scheduling.obstacles import Answer, Group, Obstacle, Reason, Survey, answer_to, in_order
from gpuspawner.core.scheduling.pod_filters import GATED, PodFilters, undecided

_Obstacles = tuple[Obstacle, ...]
_Pick = Callable[[list[int]], Sequence[int]]

_SIZES_KEPT = 64
"""Sizes of pods of which a pool remembers how many of its nodes are large enough."""


def survey(pod: Pod, occupancy: Occupancy, *, limit: int | None = None) -> Survey:
    """Return how a pod that waits, or does not exist yet, fits on all nodes together.

    :param limit: count places up to this number; None for all.
    """
    look = _Look(pod, occupancy, limit=limit)
    for pool in occupancy.table.pools(layout(pod)):
        look.at(pool)
    if pod.demands.gated:
        return _gated(len(occupancy.table), could=look.could)
    return look.result()


def fits_somewhere(pod: Pod, occupancy: Occupancy) -> bool:
    """Tell whether :func:`survey` would answer YES, without looking at more than that takes."""
    if pod.demands.gated:
        return False
    look = _Look(pod, occupancy, limit=0)
    for pool in occupancy.table.pools(layout(pod)):
        if admits(pool.example, pod.demands):
            look.at(pool)
            if look.fits:
                return True
    return False


class _Look:
    """What was seen of the pools so far.

    :ivar could: nodes that are large enough and have no obstacle of their own.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy, *, limit: int | None) -> None:
        self.could = 0
        self._pod = pod
        self._table: NodeTable = occupancy.table
        self._wanted: Needs = needs(pod)
        self._in_doubt = undecided(pod)
        self._own = NodeFilters(pod)
        self._filters = PodFilters(pod, occupancy)
        rows = map(occupancy.table.row, self._filters.crowded)
        self._crowded = frozenset(row for row in rows if row is not None)
        self._limit = limit
        self._places = 0
        self._nodes: Counter[_Obstacles] = Counter()

    @property
    def fits(self) -> bool:
        """Tell whether there was a node without any obstacle."""
        return self._nodes[()] > 0

    def at(self, pool: Pool) -> None:
        """Look at the nodes of a pool."""
        own = self._own.obstacles(pool.example)
        if own:
            self._nodes[own] += len(pool)
            return
        # Of nodes that are alike, the same resources are uncounted.
        self._needs = counted(self._wanted, pool.example)
        self._undecided = (*doubts(self._wanted, pool.example), *self._in_doubt)
        self.could += self._large_enough(pool)
        crowded = {row for row in self._crowded if row in pool}
        for pick, number, others in self._parts(pool, crowded):
            self._look_at_amounts(pick, number, others=others)
        for row in crowded:
            self._look_at_crowded(self._table.at(row))

    def result(self) -> Survey:
        """Return what was seen."""
        groups = tuple(Group(nodes=nodes, obstacles=found) for found, nodes in self._nodes.most_common() if nodes)
        answers = {answer_to(group.obstacles) for group in groups}
        unknown = (each for group in groups for each in group.obstacles if each.reason is Reason.UNDECIDED)
        demands = self._pod.demands
        places, exact = self._places, Answer.UNKNOWN not in answers
        if places and (demands.affinity or demands.anti_affinity or demands.spread):
            places, exact = 1, False
        if self._limit is not None and places > self._limit:
            places, exact = self._limit, False
        return Survey(
            answer=next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO),
            places=places,
            places_exact=exact,
            could=self.could,
            groups=groups,
            undecided=tuple(dict.fromkeys(each.detail for each in unknown)),
        )

    def _large_enough(self, pool: Pool) -> int:
        """Return how many nodes of a pool would have enough of everything if they were empty."""
        found = pool.memory.get(self._needs)
        if found is None:
            found = reduce(and_, self._enough(self._table.allocatable, pool.pick)).bit_count()
            if len(pool.memory) >= _SIZES_KEPT:
                pool.memory.clear()
            pool.memory[self._needs] = found
        return found

    def _parts(self, pool: Pool, crowded: set[int]) -> Iterator[tuple[_Pick, int, _Obstacles]]:
        """Yield parts of a pool with the same obstacles from other pods: how to pick its values, and how many."""
        if self._filters.idle and not crowded:
            yield pool.pick, len(pool), ()
            return
        parts: dict[_Obstacles, list[int]] = {}
        for row in pool.rows:
            if row not in crowded:
                parts.setdefault(self._filters.obstacles(self._table.at(row)), []).append(row)
        for others, rows in parts.items():
            yield picker(rows), len(rows), others

    def _look_at_amounts(self, pick: _Pick, number: int, *, others: _Obstacles) -> None:
        enough = self._enough(self._table.free, pick)
        lacks: dict[_Obstacles, int] = {(): _ones(number)}
        for (resource, _), mask in zip(self._needs, enough, strict=True):
            lacks = dict(_split(lacks, mask, obstacle=shortage(resource)))
        for found, mask in lacks.items():
            self._nodes[in_order((*others, *found, *self._undecided))] += mask.bit_count()
        if not others and not self._undecided and () in lacks:
            self._count_places(lacks[()].to_bytes(number, "little"), pick)

    def _look_at_crowded(self, node: Node) -> None:
        """Look at one node that is kept for other pods, as if they were there."""
        requested = self._filters.requested(node.name)
        lacks = lacking(self._needs, node, requested=requested)
        found = in_order((*self._filters.obstacles(node), *lacks, *self._undecided))
        self._nodes[found] += 1
        if not found:
            most = (
                (node.allocatable.get(resource, 0) - requested.get(resource, 0)) // number
                for resource, number in self._needs
            )
            self._places += 1 if self._pod.demands.host_ports else min(most)

    def _count_places(self, fits: bytes, pick: _Pick) -> None:
        """Count how many copies of the pod the nodes that fit would take, to one more than the limit."""
        if self._pod.demands.host_ports:  # a second copy finds the port taken
            self._places += sum(fits)
            return
        copies = [
            _each_over(compress(pick(self._table.free(resource)), fits), number) for resource, number in self._needs
        ]
        on_each = map(min, *copies) if len(copies) > 1 else copies[0]
        if self._limit is None:
            self._places += sum(on_each)
            return
        for places in on_each:
            self._places += places
            if self._places > self._limit:
                break

    def _enough(self, column: Callable[[str], list[int]], pick: _Pick) -> list[int]:
        """Return for each need a number with a byte for each node: 1 where it has enough, else 0."""
        return [
            int.from_bytes(bytes(map(number.__le__, pick(column(resource)))), "little")
            for resource, number in self._needs
        ]


def _gated(number: int, *, could: int) -> Survey:
    groups = (Group(nodes=number, obstacles=GATED),) if number else ()
    return Survey(answer=Answer.NO, places=0, places_exact=True, could=could, groups=groups)


def _each_over(column: Iterator[int], number: int) -> Iterator[int]:
    return column if number == 1 else map(floordiv, column, repeat(number))


def _ones(number: int) -> int:
    """Return a number with this many bytes that are 1."""
    return int.from_bytes(b"\1" * number, "little")


def _split(parts: dict[_Obstacles, int], mask: int, *, obstacle: Obstacle) -> Iterator[tuple[_Obstacles, int]]:
    """Yield each part twice, without those that are empty: where a mask is 1, and where it is 0 and the obstacle is."""
    for found, rows in parts.items():
        if enough := rows & mask:
            yield found, enough
        if enough != rows:
            yield (*found, obstacle), rows ^ enough
