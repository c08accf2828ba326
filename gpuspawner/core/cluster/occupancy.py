"""Nodes, the pods on them and the devices they hold, kept up to date one change at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from gpuspawner.core.cluster.devices import Devices, equipped
from gpuspawner.core.cluster.guards import Guards
from gpuspawner.core.cluster.model import Growth, HostPort, Node, Pod
from gpuspawner.core.cluster.node_table import NodeTable

PODS = "pods"
"""The resource of which each pod takes one."""

H = TypeVar("H", bound=Hashable)

_NOTHING: Mapping[str, int] = {}
_ONE_POD: Mapping[str, int] = {PODS: 1}
_NO_DEVICES = Devices()


class Occupancy:
    """What each node has and what is requested of it. Any order of changes leads to the same state.

    A pod may name a node that is not known (yet): it counts as soon as the node appears.

    :ivar generation: grows with each change of a node or a pod that could change an answer.
    :ivar nodes_generation: the same, of nodes alone.
    :ivar table: the nodes as a table with columns, for surveys.
    :ivar guards: anti-affinity of the bound pods.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.nodes_generation = 0
        self.guards = Guards()
        self.table = NodeTable(self._requested_of)
        self._bare: dict[str, Node] = {}
        """Nodes without what DRA drivers offer on them."""
        self._devices = _NO_DEVICES
        self._taken: dict[str, Mapping[str, int]] = {}
        """Node → devices that claims hold; ``_requested`` has them, too."""
        self._pods: dict[str, dict[str, Pod]] = {}
        self._waiting: dict[tuple[str, str], Pod] = {}
        self._nominated: dict[tuple[str, str], Pod] = {}
        self._requested: dict[str, dict[str, int]] = {}
        self._ports: dict[str, dict[HostPort, int]] = {}
        self._sorted: tuple[Node, ...] | None = None

    @classmethod
    def of(cls, nodes: Iterable[Node], pods: Iterable[Pod]) -> Occupancy:
        """Return an occupancy of these nodes and pods."""
        occupancy = cls()
        for node in nodes:
            occupancy.put_node(node)
        for pod in pods:
            occupancy.put_pod(pod)
        return occupancy

    def put_node(self, node: Node) -> None:
        """Take a new node, or a changed one, in."""
        if self._bare.get(node.name) != node:
            self._bare[node.name] = node
            self._equip(node)

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods are kept, as each of them leaves with a change of its own."""
        if self._bare.pop(name, None) is None:
            return
        self._take(name, _NOTHING)
        self.table.drop(name)
        self._nodes_changed()

    def put_devices(self, devices: Devices) -> None:
        """Take in what DRA drivers offer on all nodes, in the place of what was known of that."""
        before, self._devices = self._devices, devices
        if before.anywhere != devices.anywhere:
            names = set(self._bare)
        else:
            known = before.nodes.keys() | devices.nodes.keys()
            names = {name for name in known & self._bare.keys() if before.nodes.get(name) != devices.nodes.get(name)}
        for name in names:
            self._equip(self._bare[name])

    def put_pod(self, pod: Pod) -> None:
        """Take a new pod, or a changed one, in."""
        others = self._pods.setdefault(pod.namespace, {})
        known = others.get(pod.name)
        if known == pod:
            return
        if known is not None:
            self._leave(known)
        others[pod.name] = pod
        self._enter(pod)
        self.generation += 1

    def drop_pod(self, namespace: str, name: str) -> None:
        """Forget a pod."""
        others = self._pods.get(namespace, {})
        known = others.pop(name, None)
        if known is None:
            return
        if not others:
            del self._pods[namespace]
        self._leave(known)
        self.generation += 1

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, sorted by name."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self.table, key=lambda node: node.name))
        return self._sorted

    def node(self, name: str) -> Node | None:
        """Return a node by its name, None when it is not known."""
        return self.table.get(name)

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces that have pods, in no order."""
        return self._pods.keys()

    def pods(self, namespace: str | None = None) -> Iterator[Pod]:
        """Yield all pods, or those of a namespace, in no order."""
        if namespace is not None:
            yield from self._pods.get(namespace, {}).values()
            return
        for others in self._pods.values():
            yield from others.values()

    @property
    def waiting(self) -> tuple[Pod, ...]:
        """Pods that are bound to no node, in no order."""
        return tuple(self._waiting.values())

    @property
    def nominated(self) -> Iterable[Pod]:
        """Waiting pods that a node is being cleared for, in no order."""
        return self._nominated.values()

    def requested(self, node: str) -> Mapping[str, int]:
        """Return what the pods on a node request, and how many they are as ``pods``; only what is more than nothing.

        Devices that claims hold are in it, whether for a pod or not.
        """
        return self._requested.get(node, _NOTHING)

    def free(self, node: str) -> Mapping[str, int]:
        """Return what a node still has of each of its resources, never less than nothing; empty if it is not known."""
        found = self.table.get(node)
        if found is None:
            return _NOTHING
        requested = self.requested(node)
        return {name: max(0, number - requested.get(name, 0)) for name, number in found.allocatable.items()}

    def ports_in_use(self, node: str) -> Iterable[HostPort]:
        """Return the ports of a node that its pods have taken."""
        return self._ports.get(node, {}).keys()

    def _equip(self, bare: Node) -> None:
        node, taken = equipped(bare, self._devices.on(bare.name), anywhere=self._devices.anywhere)
        self._take(node.name, taken)
        if self.table.get(node.name) != node:
            self.table.put(node)
            self._nodes_changed()

    def _take(self, node: str, taken: Mapping[str, int]) -> None:
        before = self._taken.pop(node, _NOTHING)
        if taken:
            self._taken[node] = taken
        if taken == before:
            return
        requested = self._requested.setdefault(node, {})
        for amounts, change, sign in ((before, _subtract, -1), (taken, _add, 1)):
            change(requested, amounts)
            self.table.take(node, amounts, sign=sign)
        if not requested:
            del self._requested[node]
        self.generation += 1

    def _nodes_changed(self) -> None:
        self._sorted = None
        self.nodes_generation += 1
        self.generation += 1

    def _requested_of(self, node: str, resource: str) -> int:
        return self.requested(node).get(resource, 0)

    def _enter(self, pod: Pod) -> None:
        if pod.node is None:
            self._waiting[pod.namespace, pod.name] = pod
            if pod.nominated is not None:
                self._nominated[pod.namespace, pod.name] = pod
            return
        requested = self._requested.setdefault(pod.node, {})
        _add(requested, _ONE_POD)
        _add(requested, pod.requests)
        self.table.take(pod.node, _ONE_POD)
        self.table.take(pod.node, pod.requests)
        self.guards.add(pod)
        for port in pod.demands.host_ports:
            _add(self._ports.setdefault(pod.node, {}), {port: 1})

    def _leave(self, pod: Pod) -> None:
        if pod.node is None:
            del self._waiting[pod.namespace, pod.name]
            self._nominated.pop((pod.namespace, pod.name), None)
            return
        requested = self._requested[pod.node]
        _subtract(requested, _ONE_POD)
        _subtract(requested, pod.requests)
        if not requested:
            del self._requested[pod.node]
        self.table.take(pod.node, _ONE_POD, sign=-1)
        self.table.take(pod.node, pod.requests, sign=-1)
        self.guards.remove(pod)
        for port in pod.demands.host_ports:
            _subtract(self._ports[pod.node], {port: 1})
            if not self._ports[pod.node]:
                del self._ports[pod.node]


def _add(total: dict[H, int], more: Mapping[H, int]) -> None:
    for key, number in more.items():
        if number:
            total[key] = total.get(key, 0) + number


def _subtract(total: dict[H, int], less: Mapping[H, int]) -> None:
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
    :param growths: what autoscalers say that they may add; None when that could not be read, empty where nobody says.
    :param device_resources: extended resources that stand for devices of DRA drivers; None when that could not be read.
    :param age_s: seconds since the API server last confirmed all this; None when unknown, or when it never did.
    :param generation: grows when anything changes.
    """

    nodes: tuple[Node, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    reason: str = ""
    occupancy: Occupancy | None = None
    growths: tuple[Growth, ...] | None = ()
    device_resources: frozenset[str] | None = frozenset()
    age_s: float | None = None
    generation: int = 0
