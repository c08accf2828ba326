"""Group nodes by GPU type, and the nodes of each type into pools.

All nodes of a pool have the same taints, the same cordon and the same values of the labels by which GPU types match
nodes. A unit of a type is a whole GPU, a MIG slice or a share of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.dra import MAX_CLAIM_DEVICES
from gpuspawner.core.cluster.model import Node, PodConstraints, Toleration
from gpuspawner.core.cluster.node_groups import EquivalentNodes, NodeGrouping, NodeGroups, get_example
from gpuspawner.core.cluster.selectors import matches_node_affinity, may_match_node_affinity
from gpuspawner.core.cluster.taints import accepts_pods, is_reserved_for_others

_ANY_LAYOUT = NodeGrouping()


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeNodes:
    """The nodes of one GPU type.

    :param gpu: the type.
    :param pools: groups of nodes with the type's labels; some of the nodes may lack the type's resource.
    :param open: the groups in ``pools`` on which new servers can run: the nodes are not cordoned, and servers with the
        type tolerate their taints.
    :param reserved: groups of nodes with the type's labels and a permanent taint that servers with the type do not
        tolerate; these groups are not in ``pools``.
    """

    gpu: GPUType
    pools: tuple[EquivalentNodes, ...] = ()
    open: tuple[EquivalentNodes, ...] = ()
    reserved: tuple[EquivalentNodes, ...] = ()

    def list_nodes(self) -> Iterator[Node]:
        """Yield the nodes in ``pools`` that have units of the type, or may have DRA devices that cannot be counted.

        Nodes whose units are all broken are included.
        """
        return (node for group in self.list_node_groups() for node in group)

    def list_node_groups(self) -> Iterator[tuple[Node, ...]]:
        """Yield the nodes of :meth:`list_nodes`, grouped by pool."""
        for pool in self.pools:
            yield tuple(node for node in pool.values() if may_have_units(node, self.gpu.resource))

    def has_reserved_nodes(self) -> bool:
        """Return whether any node in ``reserved`` has, or may have, units (GPUs, MIG slices or shares) of the type.

        A node may have units if its DRA devices cannot be counted, or if kubelet reports 0 units.
        """
        return any(
            may_have_units(node, self.gpu.resource) or has_silent_plugin(node, self.gpu.resource)
            for pool in self.reserved
            for node in pool.values()
        )

    def is_requested_by(self, constraints: PodConstraints) -> bool:
        """Return whether a pod's node selector and affinity match at least one node of the type.

        If the type has no nodes, return whether the selector and affinity could match a new node with the type's
        labels.
        """
        if not any(may_match_node_affinity(match, constraints) for match in self.gpu.label_matches):
            return False
        has_none = True
        for node in self.list_nodes():
            if matches_node_affinity(node, constraints):
                return True
            has_none = False
        return has_none


def group_nodes_by_type(
    gpus: Iterable[GPUType],
    nodes: NodeGroups,
    *,
    tolerations: tuple[Toleration, ...] = (),
    layout: NodeGrouping = _ANY_LAYOUT,
) -> tuple[TypeNodes, ...]:
    """Return the nodes of each GPU type, in the types' order.

    :param tolerations: tolerations of every server, besides those of the types.
    :param layout: further properties that the nodes of a pool must share. Use few different layouts: ``nodes`` keeps
        the pools of only a few.
    """
    types = tuple(gpus)
    keys = {key for gpu in types for match in gpu.label_matches for key in match}
    found: list[list[EquivalentNodes]] = [[] for _ in types]
    for pool in nodes.group_nodes(replace(layout, values=tuple(sorted(keys.union(layout.values))))):
        labels = get_example(pool).labels
        for own, gpu in zip(found, types, strict=True):
            if gpu.matches_labels(labels):
                own.append(pool)
    return tuple(
        _make_type_nodes(gpu, own, tolerated=(*gpu.tolerations, *tolerations))
        for gpu, own in zip(types, found, strict=True)
    )


def count_units(node: Node, resource: str) -> int:
    """Return how many units of a GPU resource (GPUs, MIG slices or shares) a node has, including broken units."""
    return max(node.capacity.get(resource, 0), node.allocatable.get(resource, 0))


def count_units_for_pod(node: Node, resource: str) -> int:
    """Return how many units (GPUs, MIG slices or shares) one pod could get on a node if no other pod ran there."""
    number = node.allocatable.get(resource, 0)
    return min(number, MAX_CLAIM_DEVICES) if resource in node.published_by_dra else number


def may_have_units(node: Node, resource: str) -> bool:
    """Return whether a node has units (GPUs, MIG slices or shares) of a resource, or DRA devices of unknown number."""
    return count_units(node, resource) > 0 or resource in node.uncounted


def has_silent_plugin(node: Node, resource: str) -> bool:
    """Return whether kubelet reports 0 units of a resource on a node, for example before the device plugin registers.

    kubelet reports 0 after its restart, or a few minutes after the plugin stops, until the plugin registers again
    (pkg/kubelet/cm/devicemanager/manager.go, ``readCheckpoint`` and ``GetCapacity``). kubelet also reports 0 if all
    GPUs are divided into MIG slices or gone.
    """
    return (resource in node.capacity or resource in node.allocatable) and not may_have_units(node, resource)


def _make_type_nodes(gpu: GPUType, found: Iterable[EquivalentNodes], *, tolerated: tuple[Toleration, ...]) -> TypeNodes:
    ours: list[EquivalentNodes] = []
    reserved: list[EquivalentNodes] = []
    for pool in found:
        (reserved if is_reserved_for_others(get_example(pool), tolerated) else ours).append(pool)
    return TypeNodes(
        gpu=gpu,
        pools=tuple(ours),
        open=tuple(pool for pool in ours if accepts_pods(get_example(pool), tolerated)),
        reserved=tuple(reserved),
    )
