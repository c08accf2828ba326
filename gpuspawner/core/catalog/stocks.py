"""The nodes of each GPU type, in pools of nodes that are alike, without those that are reserved for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.cluster.model import Demands, Node, Toleration
from gpuspawner.core.cluster.node_choice import admits, may_admit
from gpuspawner.core.cluster.node_states import is_reserved, takes_servers
from gpuspawner.core.cluster.node_table import Layout, NodeTable, Pool

_ANY = Layout()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """The nodes of one GPU type.

    :param pools: nodes with the type's labels; not all of them need to have its resource.
    :param open: those of the pools whose nodes take new servers, as far as taints and cordons go.
    :param reserved: pools that a taint reserves for others.
    """

    gpu: GPUType
    pools: tuple[Pool, ...] = ()
    open: tuple[Pool, ...] = ()
    reserved: tuple[Pool, ...] = ()

    def nodes(self, table: NodeTable) -> Iterator[Node]:
        """Yield the nodes that have units of the type, or may have, whether they work or not."""
        return (node for group in self.groups(table) for node in group)

    def groups(self, table: NodeTable) -> Iterator[tuple[Node, ...]]:
        """Yield the same nodes in groups that are alike."""
        key = ("nodes", self.gpu.resource)
        for pool in self.pools:
            if key not in pool.memory:
                nodes = map(table.at, pool.rows)
                pool.memory[key] = tuple(node for node in nodes if may_have(node, self.gpu.resource))
            yield pool.memory[key]

    def has_reserved(self, table: NodeTable) -> bool:
        """Tell whether others have nodes with units of the type to themselves, as far as is known."""
        rows = (row for pool in self.reserved for row in pool.rows)
        nodes = (table.at(row) for row in rows)
        return any(may_have(node, self.gpu.resource) or is_silent(node, self.gpu.resource) for node in nodes)

    def is_asked_for(self, demands: Demands, table: NodeTable) -> bool:
        """Tell whether a pod asks for one of the nodes by its node selector and affinity.

        Where the type has no node, it is enough that the pod asks for nothing that such nodes will not have.
        """
        if not any(may_admit(match, demands) for match in self.gpu.matches):
            return False
        has_none = True
        for node in self.nodes(table):
            if admits(node, demands):
                return True
            has_none = False
        return has_none


def stocks(
    gpus: Iterable[GPUType], table: NodeTable, *, tolerations: tuple[Toleration, ...] = (), alike: Layout = _ANY
) -> tuple[Stock, ...]:
    """Return the stock of each type, in their order.

    :param tolerations: what every server tolerates besides the types' own (KubeSpawner's).
    :param alike: in what else the nodes of a pool are alike: a layout that others ask for as well, because the table
        keeps only so many up to date.
    """
    wanted = tuple(gpus)
    keys = {key for gpu in wanted for match in gpu.matches for key in match}
    found: list[list[Pool]] = [[] for _ in wanted]
    for pool in table.pools(replace(alike, values=tuple(sorted(keys.union(alike.values))))):
        labels = pool.example.labels
        for own, gpu in zip(found, wanted, strict=True):
            if gpu.is_on(labels):
                own.append(pool)
    return tuple(
        _stock(gpu, own, tolerated=(*gpu.tolerations, *tolerations)) for gpu, own in zip(wanted, found, strict=True)
    )


def units(node: Node, resource: str) -> int:
    """Return the units of a resource that a node has, whether they work or not."""
    return max(node.capacity.get(resource, 0), node.allocatable.get(resource, 0))


def may_have(node: Node, resource: str) -> bool:
    """Tell whether a node has units of a resource, or may have some that nobody can count."""
    return units(node, resource) > 0 or resource in node.uncounted


def is_silent(node: Node, resource: str) -> bool:
    """Tell whether a node had units of a resource and its device plugin is not there to say how many.

    kubelet says 0 from its own restart, or some minutes after the plugin's end, until the plugin registers again
    (pkg/kubelet/cm/devicemanager/manager.go, ``readCheckpoint`` and ``GetCapacity``). The same is said of a node whose
    GPUs are all divided, or gone.
    """
    return (resource in node.capacity or resource in node.allocatable) and not may_have(node, resource)


def _stock(gpu: GPUType, found: Iterable[Pool], *, tolerated: tuple[Toleration, ...]) -> Stock:
    ours: list[Pool] = []
    reserved: list[Pool] = []
    for pool in found:
        (reserved if is_reserved(pool.example, tolerated) else ours).append(pool)
    return Stock(
        gpu=gpu,
        pools=tuple(ours),
        open=tuple(pool for pool in ours if takes_servers(pool.example, tolerated)),
        reserved=tuple(reserved),
    )
