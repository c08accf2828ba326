"""Nodes, the pods on them and the devices they hold, kept up to date one change at a time.

Anti-affinity of the pods that are there already: whom they keep away from their place.

An inventory as an occupancy, whatever of it could be read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gpuspawner.core.cluster.dra_model import ClusterDevices, equip_node
from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodAffinityTerm, ScalableNodePool
from gpuspawner.core.cluster.node_table import NodeTable

_TermCounts = dict[PodAffinityTerm, dict[str, int]]
"""Term → node → how many pods with that term are there. Replicas have equal terms, so there are few."""


class AntiAffinityIndex:
    """Required anti-affinity terms of bound pods, found by the namespace they look in."""

    def __init__(self) -> None:
        self._in_namespace: dict[str, _TermCounts] = {}
        self._by_labels: _TermCounts = {}

    def add(self, pod: Pod) -> None:
        """Take the terms of a bound pod in."""
        self._change(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Take the terms of a bound pod out."""
        self._change(pod, -1)

    def iter_terms(self, namespace: str) -> Iterator[tuple[PodAffinityTerm, Mapping[str, int]]]:
        """Yield the terms that look in a namespace, or may, each with nodes and how many pods have it there."""
        yield from self._in_namespace.get(namespace, {}).items()
        yield from self._by_labels.items()

    def _change(self, pod: Pod, by: int) -> None:
        if pod.node is None:
            return
        for term in pod.constraints.anti_affinity:
            if term.namespace_selector is not None:
                _change_count(self._by_labels, term, node=pod.node, by=by)
                continue
            for namespace in term.namespaces:
                places = self._in_namespace.setdefault(namespace, {})
                _change_count(places, term, node=pod.node, by=by)
                if not places:
                    del self._in_namespace[namespace]


def _change_count(places: _TermCounts, term: PodAffinityTerm, *, node: str, by: int) -> None:
    nodes = places.setdefault(term, {})
    nodes[node] = nodes.get(node, 0) + by
    if not nodes[node]:
        del nodes[node]
    if not nodes:
        del places[term]


PODS = "pods"
"""The resource of which each pod takes one."""

_H = TypeVar("_H", bound=Hashable)

_NO_AMOUNTS: Mapping[str, int] = {}
_ONE_POD: Mapping[str, int] = {PODS: 1}
_NO_DEVICES = ClusterDevices()


class Occupancy:
    """What each node has and what is requested of it. Any order of changes leads to the same state.

    A pod may name a node that is not known (yet): it counts as soon as the node appears.

    :ivar generation: grows with each change of a node or a pod that could change an answer.
    :ivar nodes_generation: the same, of nodes alone.
    :ivar table: the nodes as a table with columns, for surveys.
    :ivar anti_affinity_index: anti-affinity of the bound pods.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.nodes_generation = 0
        self.anti_affinity_index = AntiAffinityIndex()
        self.table = NodeTable(self._get_requested_amount)
        self._plain_nodes: dict[str, Node] = {}
        """Nodes without what DRA drivers offer on them."""
        self._devices = _NO_DEVICES
        self._claimed: dict[str, Mapping[str, int]] = {}
        """Node → devices that claims hold; ``_requested`` has them, too."""
        self._pods: dict[str, dict[str, Pod]] = {}
        self._waiting: dict[tuple[str, str], Pod] = {}
        self._nominated: dict[tuple[str, str], Pod] = {}
        self._requested: dict[str, dict[str, int]] = {}
        self._ports: dict[str, dict[HostPort, int]] = {}
        self._sorted: tuple[Node, ...] | None = None

    @classmethod
    def build(cls, nodes: Iterable[Node], pods: Iterable[Pod]) -> Occupancy:
        """Return an occupancy of these nodes and pods."""
        occupancy = cls()
        for node in nodes:
            occupancy.put_node(node)
        for pod in pods:
            occupancy.put_pod(pod)
        return occupancy

    def put_node(self, node: Node) -> None:
        """Take a new node, or a changed one, in."""
        if self._plain_nodes.get(node.name) != node:
            self._plain_nodes[node.name] = node
            self._apply_devices(node)

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods are kept, as each of them leaves with a change of its own."""
        if self._plain_nodes.pop(name, None) is None:
            return
        self._set_claimed(name, _NO_AMOUNTS)
        self.table.remove(name)
        self._mark_nodes_changed()

    def put_devices(self, devices: ClusterDevices) -> None:
        """Take in what DRA drivers offer on all nodes, in the place of what was known of that."""
        before, self._devices = self._devices, devices
        if before.on_unknown_nodes != devices.on_unknown_nodes:
            names = set(self._plain_nodes)
        else:
            known = before.nodes.keys() | devices.nodes.keys()
            names = {
                name for name in known & self._plain_nodes.keys() if before.nodes.get(name) != devices.nodes.get(name)
            }
        for name in names:
            self._apply_devices(self._plain_nodes[name])

    def put_pod(self, pod: Pod) -> None:
        """Take a new pod, or a changed one, in."""
        others = self._pods.setdefault(pod.namespace, {})
        known = others.get(pod.name)
        if known == pod:
            return
        if known is not None:
            self._remove_pod(known)
        others[pod.name] = pod
        self._add_pod(pod)
        self.generation += 1

    def remove_pod(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        others = self._pods.get(namespace, {})
        known = others.pop(name, None)
        if known is None:
            return
        if not others:
            del self._pods[namespace]
        self._remove_pod(known)
        self.generation += 1

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, sorted by name."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self.table, key=lambda node: node.name))
        return self._sorted

    def get_node(self, name: str) -> Node | None:
        """Return a node by its name, None when it is not known."""
        return self.table.get(name)

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces that have pods, in no order."""
        return self._pods.keys()

    def iter_pods(self, namespace: str | None = None) -> Iterator[Pod]:
        """Yield all pods, or those of a namespace, in no order."""
        if namespace is not None:
            yield from self._pods.get(namespace, {}).values()
            return
        for others in self._pods.values():
            yield from others.values()

    @property
    def pending_pods(self) -> tuple[Pod, ...]:
        """Pods that are bound to no node, in no order."""
        return tuple(self._waiting.values())

    @property
    def nominated_pods(self) -> Iterable[Pod]:
        """Waiting pods that a node is being cleared for, in no order."""
        return self._nominated.values()

    def get_requested(self, node: str) -> Mapping[str, int]:
        """Return what the pods on a node request, and how many they are as ``pods``; only what is more than nothing.

        Devices that claims hold are in it, whether for a pod or not.
        """
        return self._requested.get(node, _NO_AMOUNTS)

    def get_free(self, node: str) -> Mapping[str, int]:
        """Return what a node still has of each of its resources, never less than nothing; empty if it is not known."""
        found = self.table.get(node)
        if found is None:
            return _NO_AMOUNTS
        requested = self.get_requested(node)
        return {name: max(0, number - requested.get(name, 0)) for name, number in found.allocatable.items()}

    def list_host_ports(self, node: str) -> Iterable[HostPort]:
        """Return the ports of a node that its pods have taken."""
        return self._ports.get(node, {}).keys()

    def _apply_devices(self, bare: Node) -> None:
        node, taken = equip_node(
            bare, self._devices.get_node_devices(bare.name), on_unknown_nodes=self._devices.on_unknown_nodes
        )
        self._set_claimed(node.name, taken)
        if self.table.get(node.name) != node:
            self.table.put(node)
            self._mark_nodes_changed()

    def _set_claimed(self, node: str, taken: Mapping[str, int]) -> None:
        before = self._claimed.pop(node, _NO_AMOUNTS)
        if taken:
            self._claimed[node] = taken
        if taken == before:
            return
        requested = self._requested.setdefault(node, {})
        for amounts, change, sign in ((before, _subtract, -1), (taken, _add, 1)):
            change(requested, amounts)
            self.table.reserve(node, amounts, sign=sign)
        if not requested:
            del self._requested[node]
        self.generation += 1

    def _mark_nodes_changed(self) -> None:
        self._sorted = None
        self.nodes_generation += 1
        self.generation += 1

    def _get_requested_amount(self, node: str, resource: str) -> int:
        return self.get_requested(node).get(resource, 0)

    def _add_pod(self, pod: Pod) -> None:
        if pod.node is None:
            self._waiting[pod.namespace, pod.name] = pod
            if pod.nominated_node is not None:
                self._nominated[pod.namespace, pod.name] = pod
            return
        requested = self._requested.setdefault(pod.node, {})
        _add(requested, _ONE_POD)
        _add(requested, pod.requests)
        self.table.reserve(pod.node, _ONE_POD)
        self.table.reserve(pod.node, pod.requests)
        self.anti_affinity_index.add(pod)
        for port in pod.constraints.host_ports:
            _add(self._ports.setdefault(pod.node, {}), {port: 1})

    def _remove_pod(self, pod: Pod) -> None:
        if pod.node is None:
            del self._waiting[pod.namespace, pod.name]
            self._nominated.pop((pod.namespace, pod.name), None)
            return
        requested = self._requested[pod.node]
        _subtract(requested, _ONE_POD)
        _subtract(requested, pod.requests)
        if not requested:
            del self._requested[pod.node]
        self.table.reserve(pod.node, _ONE_POD, sign=-1)
        self.table.reserve(pod.node, pod.requests, sign=-1)
        self.anti_affinity_index.remove(pod)
        for port in pod.constraints.host_ports:
            _subtract(self._ports[pod.node], {port: 1})
            if not self._ports[pod.node]:
                del self._ports[pod.node]


def _add(total: dict[_H, int], more: Mapping[_H, int]) -> None:
    for key, number in more.items():
        if number:
            total[key] = total.get(key, 0) + number


def _subtract(total: dict[_H, int], less: Mapping[_H, int]) -> None:
    """Take away what was added before, and what is nothing then."""
    for key, number in less.items():
        if number:
            total[key] -= number
            if not total[key]:
                del total[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A snapshot of the cluster.

    :param nodes: None when nodes could not be read: capacity is then unknown, never zero.
    :param pods: None when the pods of all namespaces could not be read: what is free is then unknown.
    :param reason: one sentence for people why something is unknown, empty when all was read.
    :param occupancy: nodes and pods as they are kept up to date; None when the pods of all namespaces are not known.
    :param scalable_pools: what autoscalers say that they may add; None when that could not be read, empty where nobody
        says.
    :param dra_resources: extended resources that stand for devices of DRA drivers; None when that could not be read.
    :param age_s: seconds since the API server last confirmed all this; None when unknown, or when it never did.
    :param generation: grows when anything changes.
    """

    nodes: tuple[Node, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    reason: str = ""
    occupancy: Occupancy | None = None
    scalable_pools: tuple[ScalableNodePool, ...] | None = ()
    dra_resources: frozenset[str] | None = frozenset()
    age_s: float | None = None
    generation: int = 0


class KnownOccupancy(NamedTuple):
    """Nodes and their pods.

    :param pods_known: the pods of all namespaces are; otherwise nodes only look empty.
    """

    occupancy: Occupancy
    pods_known: bool


def get_occupancy(inventory: Inventory) -> KnownOccupancy | None:
    """Return what an inventory knows, None when it does not even know the nodes."""
    if inventory.occupancy is not None:
        return KnownOccupancy(inventory.occupancy, pods_known=True)
    if inventory.nodes is None:
        return None
    return KnownOccupancy(_LAST_SNAPSHOT.get_occupancy(inventory), pods_known=inventory.pods is not None)


class _LastSnapshot:
    """Remembers the last snapshot that was counted: everybody asks about the same one until the next is read."""

    def __init__(self) -> None:
        self._inventory = Inventory()
        self._occupancy = Occupancy()

    def get_occupancy(self, inventory: Inventory) -> Occupancy:
        """Return an occupancy of a snapshot's nodes and pods."""
        known = self._inventory
        # Comparing thousands of nodes takes as long as counting them, so only the very same ones are known.
        if inventory.nodes is not known.nodes or inventory.pods is not known.pods:
            self._inventory = inventory
            self._occupancy = Occupancy.build(inventory.nodes or (), inventory.pods or ())
        return self._occupancy


_LAST_SNAPSHOT = _LastSnapshot()
