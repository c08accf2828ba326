"""Counts the units (GPUs, MIG slices or shares) of each GPU type, and the free CPU and memory of the same nodes.

- ``total``: all units of the type's nodes, including broken units and units on cordoned or unready nodes.
- ``healthy``: the units that are allocatable on ready nodes.
- ``free``: healthy units that no pod requests, on nodes that accept new servers and have a pod slot left. Units of pods
  that kube-scheduler would preempt for a server, such as zero-to-jupyterhub's user placeholders, are free, too.

A node counts only if servers with the GPU type tolerate the node's permanent taints. A node with an untolerated
transient taint (such as ``not-ready``) counts, but none of its units is free. Unknown numbers are None, never 0.

If the hub cannot read the pods of other namespaces, ``free`` is unknown. The hub then knows only how many units its own
servers hold.

A unit's share is the part of its node's CPU and memory that belongs to it, for the amounts that the form suggests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuspawner.core.catalog.model import Bounds, GPUType
from gpuspawner.core.catalog.nodes_by_type import TypeNodes, count_units, group_nodes_by_type, has_silent_plugin
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, Toleration
from gpuspawner.core.cluster.node_groups import get_example
from gpuspawner.core.cluster.selectors import may_match_node_affinity
from gpuspawner.core.cluster.state import PODS, Inventory, Occupancy, get_occupancy


class FreeShape(NamedTuple):
    """The CPU, memory and GPUs that are free on one node, or that would be free if no pods ran on the node.

    :param gpu_count: units of the GPU type's resource.
    """

    cpu_millis: int
    memory_bytes: int
    gpu_count: int

    def covers(self, other: FreeShape) -> bool:
        """Return whether this shape is at least as large as another in every amount."""
        return (
            self.cpu_millis >= other.cpu_millis
            and self.memory_bytes >= other.memory_bytes
            and self.gpu_count >= other.gpu_count
        )


def find_pareto_front(amounts: Iterable[tuple[int, int, int]]) -> tuple[FreeShape, ...]:
    """Return the shapes that no other shape covers (the Pareto front), sorted by GPU count, largest first.

    :param amounts: (CPU millicores, memory bytes, GPU count) of each shape.
    """
    kept: list[tuple[int, int, int]] = []
    # In descending order, a shape can be covered only by an earlier one.
    for each in sorted(set(amounts), reverse=True):
        _, memory, count = each
        for _, other_memory, other_count in kept:
            if other_memory >= memory and other_count >= count:
                break
        else:
            kept.append(each)
    kept.sort(key=lambda each: (each[2], *each), reverse=True)
    return tuple(FreeShape(*each) for each in kept)


class NodeShare(NamedTuple):
    """The part of a node's CPU and memory that belongs to one GPU, MIG slice or share of a GPU."""

    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The units (GPUs, MIG slices or shares) of one GPU type. ``free <= healthy <= total``.

    None = unknown. ``free``, ``largest``, ``waiting`` and ``shapes`` are unknown if the hub cannot read the pods of all
    namespaces.

    :param total: all units.
    :param healthy: units that work, on ready nodes.
    :param free: units that a new server could get.
    :param largest: largest number of free units on one node.
    :param waiting: units requested by pending pods whose node selector and affinity match the type's nodes. Pods with
        scheduling gates, or with a lower priority than new servers, do not count.
    :param shapes: best combinations of free units, CPU and memory on one node (Pareto front); empty if no unit is free.
    :param own: units held by the hub's own servers; set only if the hub cannot read the pods of all namespaces.
    :param largest_shapes: like ``shapes``, but as if no node ran pods; includes cordoned and unready nodes.
    :param share: the CPU and memory of a node that belong to one unit; None if no node is known to have units.
    """

    total: int | None = None
    healthy: int | None = None
    free: int | None = None
    largest: int | None = None
    waiting: int | None = None
    shapes: tuple[FreeShape, ...] | None = None
    own: int | None = None
    largest_shapes: tuple[FreeShape, ...] | None = None
    share: NodeShare | None = None


UNKNOWN_AVAILABILITY = Availability()


def count_availability(
    gpus: Iterable[GPUType],
    inventory: Inventory,
    *,
    tolerations: tuple[Toleration, ...] = (),
    priority: int | None = None,
    cache: AvailabilityCache | None = None,
) -> tuple[Availability, ...]:
    """Return how many GPUs (or GPU slices) of each type exist, work and are free, in the order of ``gpus``.

    :param tolerations: tolerations that every server has, besides those of the GPU types.
    :param priority: priority of the servers; None if it is unknown or the servers preempt no pods.
    :param cache: keeps the counts for the next call; None to keep nothing.
    """
    types = tuple(gpus)
    known = get_occupancy(inventory)
    if known is None:
        return (UNKNOWN_AVAILABILITY,) * len(types)
    basis = (cache or AvailabilityCache()).get_counts(
        types, known.occupancy, tolerations=tolerations, priority=priority
    )
    if not known.pods_known:
        return basis.existing
    return basis.update()


_MAX_EXACT_CHOICES = 16
"""Limit to save time: this many kinds of pending pods are compared with each node. Pods of one kind have the same node
selector and affinity. Further kinds are compared only with the labels of the GPU types."""


class _TypeCounts:
    """Counts the units (GPUs, MIG slices or shares) of each GPU type: all, working, free and requested by pending pods.

    :meth:`update` counts again after pods have changed. After nodes have changed, :class:`AvailabilityCache` creates a
    new object.
    """

    def __init__(
        self,
        gpus: tuple[GPUType, ...],
        occupancy: Occupancy,
        *,
        tolerations: tuple[Toleration, ...],
        priority: int | None,
    ) -> None:
        self.gpus = gpus
        self.occupancy = occupancy
        self.tolerations = tolerations
        self.priority = priority
        self._floor = occupancy.find_floor_below(priority)
        self.generation = occupancy.nodes_generation
        self._stocks = group_nodes_by_type(gpus, occupancy.node_groups, tolerations=tolerations)
        self._resources = {gpu.resource for gpu in gpus}
        self._requested: dict[tuple[int, int], tuple[PodConstraints, list[bool]]] = {}
        shares = calculate_node_shares(self._stocks)
        self.existing = tuple(
            _count_existing(stock, share=share) for stock, share in zip(self._stocks, shares, strict=True)
        )
        self._counted_changes = occupancy.amount_changes
        self._counts = [self._count(index) for index in range(len(gpus))]

    def update(self) -> tuple[Availability, ...]:
        floor = self.occupancy.find_floor_below(self.priority)
        changed = self.occupancy.find_changed_nodes(self._counted_changes) if floor == self._floor else None
        self._floor = floor
        self._counted_changes = self.occupancy.amount_changes
        for index, stock in enumerate(self._stocks):
            if changed is None or not all(pool.keys().isdisjoint(changed) for pool in stock.open):
                self._counts[index] = self._count(index)
        for index, waiting in enumerate(self.count_waiting()):
            if self.existing[index] != UNKNOWN_AVAILABILITY and self._counts[index].waiting != waiting:
                self._counts[index] = replace(self._counts[index], waiting=waiting)
        return tuple(self._counts)

    def _count(self, index: int) -> Availability:
        if self.existing[index] == UNKNOWN_AVAILABILITY:
            return UNKNOWN_AVAILABILITY
        shapes = [
            shape
            for pool in self._stocks[index].open
            for node in pool.values()
            if node.ready and (shape := self._find_free_shape(node, self.gpus[index].resource)) is not None
        ]
        return replace(
            self.existing[index],
            free=sum(shape.gpu_count for shape in shapes),
            largest=max((shape.gpu_count for shape in shapes), default=0),
            shapes=find_pareto_front(shapes),
        )

    def _find_free_shape(self, node: Node, resource: str) -> FreeShape | None:
        """Return what is free on a node, or None if it has no free unit or no free pod slot."""
        requested = self.occupancy.get_requested(node.name, self._floor)
        cpu, memory, units, pods = (
            node.allocatable.get(name, 0) - requested.get(name, 0) for name in ("cpu", "memory", resource, PODS)
        )
        # Free units are negative while pods still hold a broken GPU.
        return FreeShape(max(0, cpu), max(0, memory), units) if units > 0 and pods > 0 else None

    def count_waiting(self) -> list[int]:
        answers: dict[tuple[int, int], tuple[PodConstraints, list[bool]]] = {}
        units: Counter[tuple[tuple[int, int], str]] = Counter()
        for pod in self.occupancy.pending_pods:
            resources = self._resources & pod.requests.keys()
            is_behind = self.priority is not None and pod.priority < self.priority
            if not resources or pod.constraints.is_gated or is_behind:
                continue
            choice = pod.constraints.node_affinity_key
            if choice not in answers:
                # Store the constraints, too: while they exist, no other object gets the ``id()`` in ``choice``.
                answer = self._requested.get(choice) or (
                    pod.constraints,
                    self._find_requested_types(pod.constraints, len(answers)),
                )
                answers[choice] = answer
            for resource in resources:
                units[choice, resource] += pod.requests[resource]
        self._requested = answers
        total = [0] * len(self.gpus)
        for (choice, resource), number in units.items():
            for index, is_requested in enumerate(answers[choice][1]):
                if is_requested and self.gpus[index].resource == resource:
                    total[index] += number
        return total

    def _find_requested_types(self, constraints: PodConstraints, number: int) -> list[bool]:
        """Return for each GPU type whether a pod's node selector and affinity match the type's nodes.

        :param number: how many other kinds of pods were compared before; from ``_MAX_EXACT_CHOICES`` on, compare this
            one only with the type's labels.
        """
        if number >= _MAX_EXACT_CHOICES:
            return [
                any(may_match_node_affinity(match, constraints) for match in gpu.label_matches) for gpu in self.gpus
            ]
        return [stock.is_requested_by(constraints) for stock in self._stocks]


_MAX_COUNTS = 8


class AvailabilityCache:
    """Keeps the last counts of GPU units, because users open the form far more often than nodes change."""

    def __init__(self) -> None:
        self._recent: deque[_TypeCounts] = deque(maxlen=_MAX_COUNTS)

    def get_counts(
        self,
        gpus: tuple[GPUType, ...],
        occupancy: Occupancy,
        *,
        tolerations: tuple[Toleration, ...],
        priority: int | None,
    ) -> _TypeCounts:
        """Return the counts for these arguments, from the cache if no node has changed since.

        Call ``update()`` of the result to count the pods' units anew.
        """
        for basis in self._recent:
            if (
                basis.occupancy is occupancy
                and basis.generation == occupancy.nodes_generation
                and basis.gpus == gpus
                and basis.tolerations == tolerations
                and basis.priority == priority
            ):
                return basis
        basis = _TypeCounts(gpus, occupancy, tolerations=tolerations, priority=priority)
        self._recent.appendleft(basis)
        return basis


def _count_existing(stock: TypeNodes, *, share: NodeShare | None) -> Availability:
    resource = stock.gpu.resource
    if any(resource in get_example(pool).uncounted for pool in stock.pools):
        return UNKNOWN_AVAILABILITY
    nodes = list(_list_nodes(stock))
    total = sum(count_units(node, resource) for node in nodes)
    if not total and _may_have_more(stock, nodes):
        return UNKNOWN_AVAILABILITY
    amounts = [node.allocatable for node in nodes if node.allocatable.get(PODS, 0) > 0]
    return Availability(
        total=total,
        healthy=sum(node.allocatable.get(resource, 0) for node in nodes if node.ready),
        largest_shapes=find_pareto_front(
            {(each.get("cpu", 0), each.get("memory", 0), each[resource]) for each in amounts if each.get(resource)}
        ),
        share=share,
    )


def _may_have_more(stock: TypeNodes, nodes: Iterable[Node]) -> bool:
    """Return whether nodes of a GPU type may have units that are not counted.

    - A node's device plugin may not be registered at present.
    - The type's RuntimeClass may add tolerations to pods, so that they can run on further nodes.
    """
    if any(has_silent_plugin(node, stock.gpu.resource) for node in nodes):
        return True
    return stock.gpu.runtime_class is not None and stock.has_reserved_nodes()


def count_held_units(gpus: Iterable[GPUType], inventory: Inventory, *, pods: Iterable[Pod]) -> tuple[int | None, ...]:
    """Return how many GPUs (or GPU slices) of each type the given pods hold, or None for each if the nodes are unknown.

    :param pods: pods that have not finished; pods without a node hold nothing.
    """
    types = tuple(gpus)
    known = get_occupancy(inventory)
    if known is None:
        return (None,) * len(types)
    total = [0] * len(types)
    for pod in pods:
        node = None if pod.node is None else known.occupancy.get_node(pod.node)
        if node is not None:
            for index, gpu in enumerate(types):
                if number := pod.requests.get(gpu.resource):
                    total[index] += number if gpu.matches_labels(node.labels) else 0
    return tuple(total)


_RESERVED_PERCENT = 5
_MIN_RESERVED_CPU_MILLIS = 250
_MIN_RESERVED_MEMORY_BYTES = 512 << 20
"""Part of each node that no share contains, because DaemonSets also request CPU and memory on GPU nodes. Without it,
the server with the last GPU of a node would wait for CPU."""


class _Units(NamedTuple):
    """The units (GPUs, MIG slices or shares) of one resource on a node.

    :param number: how many there are, including broken units.
    :param size: GPU memory of one unit in bytes; None if unknown.
    """

    number: int
    size: int | None


def calculate_node_shares(stocks: Sequence[TypeNodes]) -> tuple[NodeShare | None, ...]:
    """Return for each GPU type the CPU and memory that belong to one unit (a GPU, MIG slice or share) of the type.

    A node's CPU and memory are divided evenly among its units. On a node with units of several sizes, such as whole
    GPUs and MIG slices, each unit gets its part by GPU memory. If the nodes of a type differ, the smallest share
    counts, so that it exists on every node. A type without nodes has None.
    """
    units: dict[str, dict[str, _Units]] = {}
    for stock in stocks:
        resource, size = stock.gpu.resource, stock.gpu.memory_bytes
        for node in _list_nodes(stock):
            if number := count_units(node, resource):
                held = units.setdefault(node.name, {})
                known = held.get(resource)
                held[resource] = _Units(number, size if known is None or known.size is None else known.size)
    return tuple(_find_smallest_share(stock, units) for stock in stocks)


def _list_nodes(stock: TypeNodes) -> Iterable[Node]:
    return (node for pool in stock.pools for node in pool.values())


def _find_smallest_share(stock: TypeNodes, units: Mapping[str, Mapping[str, _Units]]) -> NodeShare | None:
    resource = stock.gpu.resource
    shares = [
        _divide(node.allocatable, units[node.name], resource=resource)
        for node in _list_nodes(stock)
        if resource in units.get(node.name, {})
    ]
    if not shares:
        return None
    return NodeShare(min(each.cpu_millis for each in shares), min(each.memory_bytes for each in shares))


def _divide(allocatable: Mapping[str, int], units: Mapping[str, _Units], *, resource: str) -> NodeShare:
    is_sized = all(each.size for each in units.values())
    total = sum(each.number * ((each.size or 1) if is_sized else 1) for each in units.values())
    own = (units[resource].size or 1) if is_sized else 1
    cpu, memory = allocatable.get("cpu", 0), allocatable.get("memory", 0)
    cpu -= max(cpu * _RESERVED_PERCENT // 100, _MIN_RESERVED_CPU_MILLIS)
    memory -= max(memory * _RESERVED_PERCENT // 100, _MIN_RESERVED_MEMORY_BYTES)
    return NodeShare(max(0, cpu) * own // total, max(0, memory) * own // total)


def suggest_amount(share: int, number: int, *, bounds: Bounds) -> int | None:
    """Return the largest amount that a user may choose and that is no more than the shares of some GPUs.

    None if the shares are less than the least amount.

    :param share: CPU in millicores, or memory in bytes, that belongs to one GPU.
    :param bounds: what the user may choose, in the unit of ``share``.
    """
    most = min(share * number, bounds.max)
    return None if most < bounds.min else most - (most - bounds.min) % bounds.step
