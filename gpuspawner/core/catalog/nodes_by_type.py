"""The nodes of each GPU type, in pools of nodes that are alike, without those that are reserved for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.model import Node, PodConstraints, Toleration
from gpuspawner.core.cluster.node_affinity import matches_node_affinity, may_match_node_affinity
from gpuspawner.core.cluster.node_table import EquivalentNodes, NodeGrouping, NodeTable
from gpuspawner.core.cluster.taints import accepts_pods, is_reserved_for_others

_ANY_LAYOUT = NodeGrouping()


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeNodes:
    """The nodes of one GPU type.

    :param pools: nodes with the type's labels; not all of them need to have its resource.
    :param open: those of the pools whose nodes take new servers, as far as taints and cordons go.
    :param reserved: pools that a taint reserves for others.
    """

    gpu: GPUType
    pools: tuple[EquivalentNodes, ...] = ()
    open: tuple[EquivalentNodes, ...] = ()
    reserved: tuple[EquivalentNodes, ...] = ()

    def list_nodes(self, table: NodeTable) -> Iterator[Node]:
        """Yield the nodes that have units of the type, or may have, whether they work or not."""
        return (node for group in self.list_node_groups(table) for node in group)

    def list_node_groups(self, table: NodeTable) -> Iterator[tuple[Node, ...]]:
        """Yield the same nodes in groups that are alike."""
        key = ("nodes", self.gpu.resource)
        for pool in self.pools:
            if key not in pool.cache:
                nodes = map(table.get_by_row, pool.rows)
                pool.cache[key] = tuple(node for node in nodes if may_have_units(node, self.gpu.resource))
            yield pool.cache[key]

    def has_reserved_nodes(self, table: NodeTable) -> bool:
        """Tell whether others have nodes with units of the type to themselves, as far as is known."""
        rows = (row for pool in self.reserved for row in pool.rows)
        nodes = (table.get_by_row(row) for row in rows)
        return any(
            may_have_units(node, self.gpu.resource) or has_silent_plugin(node, self.gpu.resource) for node in nodes
        )

    def is_requested_by(self, constraints: PodConstraints, table: NodeTable) -> bool:
        """Tell whether a pod asks for one of the nodes by its node selector and affinity.

        Where the type has no node, it is enough that the pod asks for nothing that such nodes will not have.
        """
        if not any(may_match_node_affinity(match, constraints) for match in self.gpu.label_matches):
            return False
        has_none = True
        for node in self.list_nodes(table):
            if matches_node_affinity(node, constraints):
                return True
            has_none = False
        return has_none


def group_nodes_by_type(
    gpus: Iterable[GPUType],
    table: NodeTable,
    *,
    tolerations: tuple[Toleration, ...] = (),
    layout: NodeGrouping = _ANY_LAYOUT,
) -> tuple[TypeNodes, ...]:
    """Return the stock of each type, in their order.

    :param tolerations: what every server tolerates besides the types' own (KubeSpawner's).
    :param layout: in what else the nodes of a pool are alike: a layout that others ask for as well, because the table
        keeps only so many up to date.
    """
    wanted = tuple(gpus)
    keys = {key for gpu in wanted for match in gpu.label_matches for key in match}
    found: list[list[EquivalentNodes]] = [[] for _ in wanted]
    for pool in table.group_nodes(replace(layout, values=tuple(sorted(keys.union(layout.values))))):
        labels = pool.example.labels
        for own, gpu in zip(found, wanted, strict=True):
            if gpu.matches_labels(labels):
                own.append(pool)
    return tuple(
        _make_type_nodes(gpu, own, tolerated=(*gpu.tolerations, *tolerations))
        for gpu, own in zip(wanted, found, strict=True)
    )


def count_units(node: Node, resource: str) -> int:
    """Return the units of a resource that a node has, whether they work or not."""
    return max(node.capacity.get(resource, 0), node.allocatable.get(resource, 0))


def may_have_units(node: Node, resource: str) -> bool:
    """Tell whether a node has units of a resource, or may have some that nobody can count."""
    return count_units(node, resource) > 0 or resource in node.uncounted


def has_silent_plugin(node: Node, resource: str) -> bool:
    """Tell whether a node had units of a resource and its device plugin is not there to say how many.

    kubelet says 0 from its own restart, or some minutes after the plugin's end, until the plugin registers again
    (pkg/kubelet/cm/devicemanager/manager.go, ``readCheckpoint`` and ``GetCapacity``). The same is said of a node whose
    GPUs are all divided, or gone.
    """
    return (resource in node.capacity or resource in node.allocatable) and not may_have_units(node, resource)


def _make_type_nodes(gpu: GPUType, found: Iterable[EquivalentNodes], *, tolerated: tuple[Toleration, ...]) -> TypeNodes:
    ours: list[EquivalentNodes] = []
    reserved: list[EquivalentNodes] = []
    for pool in found:
        (reserved if is_reserved_for_others(pool.example, tolerated) else ours).append(pool)
    return TypeNodes(
        gpu=gpu,
        pools=tuple(ours),
        open=tuple(pool for pool in ours if accepts_pods(pool.example, tolerated)),
        reserved=tuple(reserved),
    )
