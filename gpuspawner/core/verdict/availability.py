"""How many units of each GPU type there are, how many a new server could get, and beside how much CPU and memory.

What counts:

- ``total``: all units the type's nodes have, also those that do not work and those of nodes that take no new server
  for the time being (cordoned, not ready, about to go): they are there, and may come back.
- ``healthy``: those of them that work: ``allocatable`` instead of ``capacity``, on nodes that are ready.
- ``free``: what a new server could get: no pod asked for it, and its node takes new servers and has a pod to spare.

Nodes reserved for others, by a taint that neither the type nor the server tolerates, do not count at all: nobody here
could ever get their units. Unknown stays unknown: None is never turned into 0.

What single nodes can give a server: GPUs, CPU and memory together, without what another gives all of and more.

What the hub's own servers hold: all that is known of what is taken while the pods of others cannot be read.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.nodes_by_type import TypeNodes, count_units, group_nodes_by_type, has_silent_plugin
from gpuspawner.core.cluster.model import Pod, PodConstraints, Toleration
from gpuspawner.core.cluster.node_affinity import may_match_node_affinity
from gpuspawner.core.cluster.node_table import EquivalentNodes, NodeTable
from gpuspawner.core.cluster.state import PODS, Inventory, Occupancy, get_occupancy


class FreeShape(NamedTuple):
    """What one node gives, or could give, to one server.

    :param cpu_millis: millicores.
    :param memory_bytes: bytes.
    :param gpu_count: units of the GPU type's resource.
    """

    cpu_millis: int
    memory_bytes: int
    gpu_count: int

    def covers(self, other: FreeShape) -> bool:
        """Return whether this shape has at least as much of everything as another one."""
        return (
            self.cpu_millis >= other.cpu_millis
            and self.memory_bytes >= other.memory_bytes
            and self.gpu_count >= other.gpu_count
        )


def find_pareto_front(amounts: Iterable[tuple[int, int, int]]) -> tuple[FreeShape, ...]:
    """Return the shapes that no other shape covers (the Pareto front), the largest counts first.

    A server fits into one of all shapes exactly when it fits into one of these.

    :param amounts: millicores, bytes and count of each shape; plain tuples, because there are as many as nodes.
    """
    kept: list[tuple[int, int, int]] = []
    # In this order, no shape covers one before it.
    for each in sorted(set(amounts), reverse=True):
        _, memory, count = each
        for _, other_memory, other_count in kept:
            if other_memory >= memory and other_count >= count:
                break
        else:
            kept.append(each)
    kept.sort(key=lambda each: (each[2], *each), reverse=True)
    return tuple(FreeShape(*each) for each in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The units of one GPU type: cards, MIG slices or shares, whatever one unit is. ``free <= healthy <= total``.

    All are None while nodes are unknown, or how many one of them has; ``free``, ``largest``, ``waiting`` and ``shapes``
    also while the pods of all namespaces are.

    :param largest: the largest count that one node can still give.
    :param waiting: units that pods without a node ask for, by selector and affinity from this type's nodes.
    :param shapes: what single nodes still have, without what another one has all of and more; empty when nothing is
        free.
    :param own: units that the hub's own servers hold, where more is not known of what is taken.
    :param largest_shapes: the same for the type's nodes when nothing runs there, also while they take no new server.
    """

    total: int | None = None
    healthy: int | None = None
    free: int | None = None
    largest: int | None = None
    waiting: int | None = None
    shapes: tuple[FreeShape, ...] | None = None
    own: int | None = None
    largest_shapes: tuple[FreeShape, ...] | None = None


UNKNOWN_AVAILABILITY = Availability()


def count_availability(
    gpus: Iterable[GPUType], inventory: Inventory, *, tolerations: tuple[Toleration, ...] = ()
) -> tuple[Availability, ...]:
    """Return what there is of each type, in their order, in one pass over their nodes.

    :param tolerations: what every server tolerates besides the types' own (KubeSpawner's).
    """
    wanted = tuple(gpus)
    known = get_occupancy(inventory)
    if known is None:
        return (UNKNOWN_AVAILABILITY,) * len(wanted)
    basis = _find_counts(wanted, known.occupancy, tolerations=tolerations)
    if not known.pods_known:
        return basis.existing
    return basis.update()


_MAX_EXACT_CHOICES = 16
"""Different choices of nodes, by pods that wait, that are looked at node by node: anybody may think of thousands."""


class _TypeCounts:
    """What is said of some types as long as no node changes."""

    def __init__(self, gpus: tuple[GPUType, ...], occupancy: Occupancy, *, tolerations: tuple[Toleration, ...]) -> None:
        self.gpus = gpus
        self.occupancy = occupancy
        self.tolerations = tolerations
        self.generation = occupancy.nodes_generation
        self._table = occupancy.table
        self._stocks = group_nodes_by_type(gpus, occupancy.table, tolerations=tolerations)
        self._resources = {gpu.resource for gpu in gpus}
        self._requested: dict[tuple[int, int], tuple[PodConstraints, list[bool]]] = {}
        self.existing = tuple(_count_existing(stock, self._table) for stock in self._stocks)
        self._counted_touches = self._table.change_count
        self._counts = [self._count(index) for index in range(len(gpus))]

    def update(self) -> tuple[Availability, ...]:
        """Return for each type what there is of it and what nobody has; only where pods came or went it is counted."""
        touched = self._table.find_changed_rows(self._counted_touches)
        self._counted_touches = self._table.change_count
        for index, stock in enumerate(self._stocks):
            if touched is None or (touched and any(pool.has_any(touched) for pool in stock.open)):
                self._counts[index] = self._count(index)
        for index, waiting in enumerate(self.count_waiting()):
            if self.existing[index] != UNKNOWN_AVAILABILITY and self._counts[index].waiting != waiting:
                self._counts[index] = replace(self._counts[index], waiting=waiting)
        return tuple(self._counts)

    def _count(self, index: int) -> Availability:
        """Return what there is of a type, and what nobody has of it."""
        if self.existing[index] == UNKNOWN_AVAILABILITY:
            return UNKNOWN_AVAILABILITY
        free_units = self._table.get_free_column(self.gpus[index].resource)
        others = [self._table.get_free_column(name) for name in ("cpu", "memory", PODS)]
        rows: list[tuple[int, int, int, int]] = []
        for pool in self._stocks[index].open:
            units_left = _select_ready(pool, self._table, column=free_units)
            if max(units_left) > 0:
                cpu, memory, pods = (_select_ready(pool, self._table, column=column) for column in others)
                # A node whose GPU broke may have promised more than it still has: that takes nothing from others.
                rows += [row for row in zip(cpu, memory, units_left, pods, strict=True) if row[2] > 0 and row[3] > 0]
        counts = [row[2] for row in rows]
        return replace(
            self.existing[index],
            free=sum(counts),
            largest=max(counts, default=0),
            shapes=find_pareto_front(_list_free_amounts(rows)),
        )

    def count_waiting(self) -> list[int]:
        """Return for each type how many units pods wait for; one that would take any of several counts for each."""
        asking: dict[tuple[int, int], tuple[PodConstraints, list[bool]]] = {}
        asked: Counter[tuple[tuple[int, int], str]] = Counter()
        for pod in self.occupancy.pending_pods:
            wanted = self._resources & pod.requests.keys()
            if not wanted or pod.constraints.is_gated:
                continue
            choice = pod.constraints.node_affinity_key
            if choice not in asking:
                # Kept with the answer: as long as they are, no other demands have their choice.
                answer = self._requested.get(choice) or (
                    pod.constraints,
                    self._find_requested_types(pod.constraints, len(asking)),
                )
                asking[choice] = answer
            for resource in wanted:
                asked[choice, resource] += pod.requests[resource]
        self._requested = asking
        total = [0] * len(self.gpus)
        for (choice, resource), number in asked.items():
            for index, is_asked in enumerate(asking[choice][1]):
                if is_asked and self.gpus[index].resource == resource:
                    total[index] += number
        return total

    def _find_requested_types(self, constraints: PodConstraints, number: int) -> list[bool]:
        """Return of which types a pod asks for nodes; after very many different ones, of which it might."""
        if number >= _MAX_EXACT_CHOICES:
            return [
                any(may_match_node_affinity(match, constraints) for match in gpu.label_matches) for gpu in self.gpus
            ]
        return [stock.is_requested_by(constraints, self._table) for stock in self._stocks]


_RECENT_COUNTS: deque[_TypeCounts] = deque(maxlen=8)
"""The last ones asked for: forms are shown far more often than nodes change, and most people are offered the same."""


def _find_counts(
    gpus: tuple[GPUType, ...], occupancy: Occupancy, *, tolerations: tuple[Toleration, ...]
) -> _TypeCounts:
    for basis in _RECENT_COUNTS:
        if (
            basis.occupancy is occupancy
            and basis.generation == occupancy.nodes_generation
            and basis.gpus == gpus
            and basis.tolerations == tolerations
        ):
            return basis
    basis = _TypeCounts(gpus, occupancy, tolerations=tolerations)
    _RECENT_COUNTS.appendleft(basis)
    return basis


def _count_existing(stock: TypeNodes, table: NodeTable) -> Availability:
    """Return what there is of a type, whoever has it."""
    resource = stock.gpu.resource
    if any(resource in pool.example.uncounted for pool in stock.pools):
        return UNKNOWN_AVAILABILITY
    columns = [table.get_allocatable_column(name) for name in ("cpu", "memory", resource, PODS)]
    rows = {row for pool in stock.pools for row in zip(*map(pool.pick, columns), strict=True) if row[2] > 0}
    total = sum(_count_total(pool, table, resource=resource) for pool in stock.pools)
    if not total and _may_have_more(stock, table):
        return UNKNOWN_AVAILABILITY
    return Availability(
        total=total,
        healthy=sum(sum(_select_ready(pool, table, column=columns[2])) for pool in stock.pools),
        largest_shapes=find_pareto_front(_list_free_amounts(rows)),
    )


def _may_have_more(stock: TypeNodes, table: NodeTable) -> bool:
    """Tell whether a type that seems to have nothing may have some: a plugin is not there, or a runtime class helps."""
    if any(has_silent_plugin(table.get_by_row(row), stock.gpu.resource) for pool in stock.pools for row in pool.rows):
        return True
    return stock.gpu.runtime_class is not None and stock.has_reserved_nodes(table)


def _list_free_amounts(rows: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield CPU, memory and units of the nodes that can take one more pod; what is overcommitted counts as 0.

    :param rows: millicores, bytes, units and pods of each node.
    """
    for cpu, memory, count, pods in rows:
        if pods > 0:
            yield max(0, cpu), max(0, memory), count


def _count_total(pool: EquivalentNodes, table: NodeTable, *, resource: str) -> int:
    """Return the units of all nodes of a pool, whether they work or not."""
    key = ("units", resource)
    if key not in pool.cache:
        pool.cache[key] = sum(count_units(table.get_by_row(row), resource) for row in pool.rows)
    number: int = pool.cache[key]
    return number


def _select_ready(pool: EquivalentNodes, table: NodeTable, *, column: list[int]) -> Sequence[int]:
    """Return the values a column has for the nodes of a pool that are ready; one 0 where none is."""
    if "unready" not in pool.cache:
        pool.cache["unready"] = sum(not table.get_by_row(row).ready for row in pool.rows)
    values = pool.pick(column)
    if not pool.cache["unready"]:
        return values
    return tuple(compress(values, (table.get_by_row(row).ready for row in pool.rows))) or (0,)


def count_held_units(gpus: Iterable[GPUType], inventory: Inventory, *, pods: Iterable[Pod]) -> tuple[int | None, ...]:
    """Return how many units of each GPU type some pods hold, None while nodes are not known.

    :param pods: not finished; those without a node hold nothing yet.
    """
    wanted = tuple(gpus)
    known = get_occupancy(inventory)
    if known is None:
        return (None,) * len(wanted)
    total = [0] * len(wanted)
    for pod in pods:
        node = None if pod.node is None else known.occupancy.get_node(pod.node)
        if node is not None:
            for index, gpu in enumerate(wanted):
                if number := pod.requests.get(gpu.resource):
                    total[index] += number if gpu.matches_labels(node.labels) else 0
    return tuple(total)
