"""Keep the state of the cluster: nodes, their pods and free resources, updated one change at a time.

:class:`Occupancy` is the mutable state. :class:`Inventory` contains the data that gpuspawner could read.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from gpuspawner.core.cluster.dra import ClusterDevices, equip_node
from gpuspawner.core.cluster.model import (
    HostPort,
    Node,
    Pod,
    PriorityClass,
    RuntimeClass,
    ScalableNodePool,
)
from gpuspawner.core.cluster.node_groups import NodeGroups
from gpuspawner.core.cluster.pod_indexes import AntiAffinityIndex, ClaimIndex
from gpuspawner.core.cluster.volumes import UNLIMITED, ClusterVolumes

PODS = "pods"
"""Kubernetes resource whose allocatable amount is the number of pods that a node may run."""
_H = TypeVar("_H", bound=Hashable)

_NO_AMOUNTS: Mapping[str, int] = {}
_ONE_POD: Mapping[str, int] = {PODS: 1}
_NO_DEVICES = ClusterDevices()
_NO_VOLUMES = ClusterVolumes()
_MAX_FLOORS = 8
"""Maximum number of floors for which :class:`Occupancy` keeps the requested amounts of nodes."""
_MAX_CHANGES = 512
"""Maximum number of changes whose nodes :meth:`Occupancy.find_changed_nodes` knows."""
_ANY_PRIORITY = 2**31
"""A number above the priority of any pod: a pod with an unknown PriorityClass may be able to preempt every pod."""


class Occupancy:
    """All nodes and pods of the cluster, and the amounts of resources that are taken and free on each node.

    Nodes and pods may be added in any order. A pod counts as soon as the pod and its node have both been added.

    Several methods take a ``floor``: the lowest priority that counts. These methods leave out bound pods of lower
    priority, because kube-scheduler may preempt them for a pending pod. Without a floor (None), all pods count.

    :ivar generation: number that grows with each change that may affect whether a pod fits on a node.
    :ivar nodes_generation: number that grows with each change of a node.
    :ivar node_groups: the nodes in groups, for checks of all nodes at once.
    :ivar amount_changes: number of changes of the amounts that pods hold on nodes.
    :ivar anti_affinity_index: anti-affinity of the bound pods.
    :ivar volumes: the cluster's volumes, and how many volumes each CSI driver may attach to each node.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.nodes_generation = 0
        self.anti_affinity_index = AntiAffinityIndex()
        self.node_groups = NodeGroups()
        self._plain_nodes: dict[str, Node] = {}
        """Nodes by name as Kubernetes reports them, without DRA devices and the volume limits of CSI drivers."""
        self._devices = _NO_DEVICES
        self.volumes = _NO_VOLUMES
        self._claim_index = ClaimIndex()
        self._held: dict[str, Mapping[str, int]] = {}
        """Node name → resource → number of devices or volumes that are taken on the node.

        For an extended resource, this is the number of DRA devices that ResourceClaims hold. For the resource of a CSI
        driver (``VOLUMES_PREFIX`` and the driver's name), it is the number of the driver's volumes on the node.
        """
        self._pods: dict[str, dict[str, Pod]] = {}
        self._levels: dict[int, dict[str, list[Pod]]] = {}
        """Priority → node name → bound pods."""
        self._pending: dict[tuple[str, str], Pod] = {}
        self._nominated: dict[tuple[str, str], Pod] = {}
        self._requested: dict[str, dict[str, int]] = {}
        """Node name → resource → amount that the pods on the node request."""
        self._taken: dict[int | None, dict[str, Mapping[str, int]]] = {}
        """Floor → node name → result of :meth:`get_requested`, until it changes."""
        self.amount_changes = 0
        self._changed_nodes: deque[str] = deque(maxlen=_MAX_CHANGES)
        self._ports: dict[str, dict[HostPort, int]] = {}
        self._sorted: tuple[Node, ...] | None = None

    @classmethod
    def build(cls, nodes: Iterable[Node], pods: Iterable[Pod]) -> Occupancy:
        """Build an :class:`Occupancy` from nodes and pods."""
        occupancy = cls()
        for node in nodes:
            occupancy.put_node(node)
        for pod in pods:
            occupancy.put_pod(pod)
        return occupancy

    def put_node(self, node: Node) -> None:
        """Add or update a node.

        :param node: as Kubernetes reports it, without the devices of DRA drivers and the limits of CSI drivers.
        """
        if self._plain_nodes.get(node.name) != node:
            self._plain_nodes[node.name] = node
            self._equip_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node if it is known. Its pods stay until :meth:`remove_pod` removes them."""
        if self._plain_nodes.pop(name, None) is None:
            return
        self._set_held(name, _NO_AMOUNTS)
        self.node_groups.remove(name)
        self._mark_amounts_changed(name)
        self._mark_nodes_changed()

    def put_devices(self, devices: ClusterDevices) -> None:
        """Replace the devices of DRA drivers on all nodes."""
        before, self._devices = self._devices, devices
        if before.on_unknown_nodes != devices.on_unknown_nodes:
            names = set(self._plain_nodes)
        else:
            known = before.nodes.keys() | devices.nodes.keys()
            names = {
                name for name in known & self._plain_nodes.keys() if before.nodes.get(name) != devices.nodes.get(name)
            }
        for name in names:
            self._equip_node(self._plain_nodes[name])

    def put_volumes(self, volumes: ClusterVolumes) -> None:
        """Replace the known volumes of the cluster and the volume limits of nodes."""
        before, self.volumes = self.volumes, volumes
        self.generation += volumes != before
        names = {
            name
            for old, new in ((before.limits, volumes.limits), (before.attached, volumes.attached))
            for name in old.keys() | new.keys()
            if old.get(name) != new.get(name)
        }
        changed = before.of_claims.items() ^ volumes.of_claims.items()
        names |= {node for claim, _ in changed for node in self._claim_index.list_nodes(claim)}
        if before.drivers != volumes.drivers:
            names = set(self._plain_nodes)
        for name in names & self._plain_nodes.keys():
            self._equip_node(self._plain_nodes[name])

    def count_more_volumes(self, node: str, pods: Iterable[Pod], *, floor: int | None = None) -> Mapping[str, int]:
        """Return ``VOLUMES_PREFIX`` + CSI driver → number of the driver's volumes that pods would add to a node.

        :param pods: the pods, not bound to a node yet.
        :param floor: a priority; leave out the node's bound pods with a lower priority.
        """
        claims = {(pod.namespace, name) for pod in pods for name in pod.claims}
        if not claims or not self.volumes.limits:
            return _NO_AMOUNTS
        own = set(self._claim_index.list_claims(node, without=self.list_lower_pods(node, floor)))
        total = Counter(self.volumes.count_on_node(node, own | claims))
        return total - Counter(self.volumes.count_on_node(node, own))

    def find_shared_volumes(self, pod: Pod, floor: int | None = None) -> Mapping[str, Mapping[str, int]]:
        """Return node → ``VOLUMES_PREFIX`` + CSI driver → number of a pod's volumes that other pods on the node use.

        The pod does not add these volumes to the node. If other pods use all of the pod's volumes of a CSI driver, the
        number is ``UNLIMITED``, because the driver's limit then does not matter for the pod.

        :param pod: a pod that is not bound to a node yet.
        :param floor: a priority; ignore pods with a lower priority. If only such pods use the pod's volumes on a node,
            the result has an empty mapping for the node.
        """
        if not pod.attachments:
            return {}
        # To save time, ignore volumes of CSI drivers without a limit, such as file shares that pods on many nodes use.
        own = self.volumes.select_limited((pod.namespace, name) for name in pod.claims)
        nodes = {node for claim in own for node in self._claim_index.list_nodes(claim)}
        counts = (
            (node, self.volumes.count_shared(own.intersection(self._claim_index.list_claims(node, without=lower))))
            for node, lower in ((node, self.list_lower_pods(node, floor)) for node in nodes)
        )
        return {
            node: {name: UNLIMITED if number == pod.attachments.get(name) else number for name, number in used.items()}
            for node, used in counts
        }

    def put_pod(self, pod: Pod) -> None:
        """Add or update a pod."""
        pods = self._pods.setdefault(pod.namespace, {})
        previous = pods.get(pod.name)
        if previous == pod:
            return
        if previous is not None:
            self._remove_pod(previous)
        pods[pod.name] = pod
        self._add_pod(pod)
        self.generation += 1

    def remove_pod(self, namespace: str, name: str) -> None:
        """Remove a pod if it is known."""
        pods = self._pods.get(namespace, {})
        pod = pods.pop(name, None)
        if pod is None:
            return
        if not pods:
            del self._pods[namespace]
        self._remove_pod(pod)
        self.generation += 1

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, sorted by name."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self.node_groups, key=lambda node: node.name))
        return self._sorted

    def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None if it is unknown."""
        return self._pods.get(namespace, {}).get(name)

    def get_node(self, name: str) -> Node | None:
        """Return a node by name, or None if it is unknown."""
        return self.node_groups.get(name)

    @property
    def namespaces(self) -> Iterable[str]:
        """Namespaces with pods, unordered."""
        return self._pods.keys()

    def iter_pods(self, namespace: str | None = None) -> Iterator[Pod]:
        """Yield the pods of one namespace or of all namespaces, unordered.

        :param namespace: name of the namespace; None for all namespaces.
        """
        if namespace is not None:
            yield from self._pods.get(namespace, {}).values()
            return
        for pods in self._pods.values():
            yield from pods.values()

    @property
    def pending_pods(self) -> tuple[Pod, ...]:
        """Pods that are bound to no node, unordered."""
        return tuple(self._pending.values())

    @property
    def nominated_pods(self) -> Iterable[Pod]:
        """Pending pods that kube-scheduler plans to run on a certain node (``nominatedNodeName``), unordered."""
        return self._nominated.values()

    def find_floor(self, pod: Pod) -> int | None:
        """Return the priority below which a pending pod may preempt bound pods; None if it can preempt none.

        :param pod: a pending pod, or one that is not created yet. If its PriorityClass is unknown, the result is above
            the priority of any pod.
        """
        if pod.preempts is False:
            return None
        return self.find_floor_below(pod.priority if pod.preempts else _ANY_PRIORITY)

    def find_floor_below(self, priority: int | None) -> int | None:
        """Return the given priority, or None if no bound pod has a lower priority.

        :param priority: priority of a pod that may preempt others; if None, the result is None.
        """
        return priority if priority is not None and any(level < priority for level in self._levels) else None

    def list_lower_pods(self, node: str, floor: int | None) -> Sequence[Pod]:
        """Return the pods on a node whose priority is below a floor.

        :param node: name of the node, which may be unknown.
        :param floor: a priority; for None, the result is empty.
        """
        if floor is None:
            return ()
        return [pod for level, nodes in self._levels.items() if level < floor for pod in nodes.get(node, ())]

    def get_requested(self, node: str, floor: int | None = None) -> Mapping[str, int]:
        """Return resource → requested amount on a node, without zeros; resource ``pods`` is the node's number of pods.

        If a DRA driver publishes a resource on the node, the amount is the number of devices that ResourceClaims hold,
        not what pods request: kube-scheduler leaves the resource to DRA (plugins/noderesources/fit.go,
        ``shouldDelegateResourceToDRA``). For each CSI driver with a limit, the result also has the number of the
        driver's volumes on the node.

        :param node: name of the node, which may be unknown.
        :param floor: leave out pods below this priority. Their ResourceClaims still count, because the claims outlive a
            preemption. Their attached volumes still count, because kube-scheduler counts a node's VolumeAttachments
            even while it looks for pods to preempt there (nodevolumelimits/csi.go, ``Filter``).
        """
        by_node = self._taken.get(floor)
        if by_node is None:
            if len(self._taken) >= _MAX_FLOORS:
                self._taken.clear()
            by_node = self._taken[floor] = {}
        taken = by_node.get(node)
        if taken is None:
            taken = by_node[node] = self._sum_requested(node, floor)
        return taken

    def find_changed_nodes(self, since: int) -> frozenset[str] | None:
        """Return the names of the nodes whose requested amounts may have changed since an earlier moment.

        The result is None if there were more than :data:`_MAX_CHANGES` changes.

        :param since: value of :attr:`amount_changes` at the earlier moment.
        """
        changes = self.amount_changes - since
        if changes > len(self._changed_nodes):
            return None
        return frozenset(islice(reversed(self._changed_nodes), changes))

    def _mark_amounts_changed(self, node: str) -> None:
        self.amount_changes += 1
        self._changed_nodes.append(node)
        for by_node in self._taken.values():
            by_node.pop(node, None)

    def _sum_requested(self, node: str, floor: int | None) -> Mapping[str, int]:
        requested = self._requested.get(node, _NO_AMOUNTS)
        held = self._held.get(node, _NO_AMOUNTS)
        if lower := self.list_lower_pods(node, floor):
            requested, held = dict(requested), dict(held)
            for pod in lower:
                _subtract(requested, _ONE_POD)
                _subtract(requested, pod.requests)
            _subtract(held, self._count_freed_volumes(node, lower))
        requested = self._drop_published(node, requested)
        return {**requested, **held} if held else requested

    def get_free(self, node: str) -> Mapping[str, int]:
        """Return resource → free amount on a node, at least 0; empty if the node is unknown."""
        known = self.node_groups.get(node)
        if known is None:
            return _NO_AMOUNTS
        requested = self.get_requested(node)
        return {name: max(0, number - requested.get(name, 0)) for name, number in known.allocatable.items()}

    def list_host_ports(self, node: str, floor: int | None = None) -> Iterable[HostPort]:
        """Return the host ports that the pods on a node use.

        :param floor: a priority; leave out pods with a lower priority. With None, all pods count.
        """
        ports = self._ports.get(node, {})
        if not ports or not (lower := self.list_lower_pods(node, floor)):
            return ports.keys()
        kept = dict(ports)
        for pod in lower:
            _subtract(kept, dict.fromkeys(pod.constraints.host_ports, 1))
        return kept.keys()

    def _count_volumes(self, node: str, *, without: Iterable[Pod] = ()) -> Mapping[str, int]:
        return self.volumes.count_on_node(node, self._claim_index.list_claims(node, without=without))

    def _count_freed_volumes(self, node: str, lower: Sequence[Pod]) -> Mapping[str, int]:
        if node not in self._held or not any(pod.claims for pod in lower):
            return _NO_AMOUNTS
        return Counter(self._count_volumes(node)) - Counter(self._count_volumes(node, without=lower))

    def _equip_node(self, plain: Node) -> None:
        equipped, claimed = equip_node(
            plain, self._devices.get_node_devices(plain.name), on_unknown_nodes=self._devices.on_unknown_nodes
        )
        node = self.volumes.add_limits(equipped)
        attached = self._count_volumes(node.name)
        self._set_held(node.name, {**claimed, **attached} if attached else claimed)
        if self.node_groups.get(node.name) != node:
            self.node_groups.put(node)
            self._mark_amounts_changed(node.name)
            self._mark_nodes_changed()

    def _set_held(self, node: str, held: Mapping[str, int]) -> None:
        before = self._held.pop(node, _NO_AMOUNTS)
        if not (held or before):
            return
        if held:
            self._held[node] = held
        # Forget the requested amounts even if ``held`` equals ``before``: the node may have as many volumes as before,
        # but different ones, so a preemption on the node may free more or fewer volumes.
        self._mark_amounts_changed(node)
        self.generation += held != before

    def _drop_published(self, node: str, requests: Mapping[str, int]) -> Mapping[str, int]:
        """Return requests without those resources that DRA drivers publish on a node."""
        known = self.node_groups.get(node)
        if known is None or known.published_by_dra.isdisjoint(requests):
            return requests
        return {name: number for name, number in requests.items() if name not in known.published_by_dra}

    def _mark_nodes_changed(self) -> None:
        self._sorted = None
        self.nodes_generation += 1
        self.generation += 1

    def _add_pod(self, pod: Pod) -> None:
        if pod.node is None:
            self._pending[pod.namespace, pod.name] = pod
            if pod.nominated_node is not None:
                self._nominated[pod.namespace, pod.name] = pod
            return
        requested = self._requested.setdefault(pod.node, {})
        _add(requested, _ONE_POD)
        _add(requested, pod.requests)
        self._levels.setdefault(pod.priority, {}).setdefault(pod.node, []).append(pod)
        self._mark_amounts_changed(pod.node)
        self.anti_affinity_index.add(pod)
        self._change_claims(pod, 1)
        for port in pod.constraints.host_ports:
            _add(self._ports.setdefault(pod.node, {}), {port: 1})

    def _change_claims(self, pod: Pod, by: int) -> None:
        self._claim_index.change(pod, by)
        if pod.claims and self.volumes.limits and (plain := self._plain_nodes.get(pod.node or "")) is not None:
            self._equip_node(plain)

    def _remove_pod(self, pod: Pod) -> None:
        if pod.node is None:
            del self._pending[pod.namespace, pod.name]
            self._nominated.pop((pod.namespace, pod.name), None)
            return
        requested = self._requested[pod.node]
        _subtract(requested, _ONE_POD)
        _subtract(requested, pod.requests)
        if not requested:
            del self._requested[pod.node]
        level = self._levels[pod.priority]
        level[pod.node].remove(pod)
        if not level[pod.node]:
            del level[pod.node]
        if not level:
            del self._levels[pod.priority]
        self._mark_amounts_changed(pod.node)
        self.anti_affinity_index.remove(pod)
        self._change_claims(pod, -1)
        for port in pod.constraints.host_ports:
            _subtract(self._ports[pod.node], {port: 1})
            if not self._ports[pod.node]:
                del self._ports[pod.node]


def _add(total: dict[_H, int], more: Mapping[_H, int]) -> None:
    for key, number in more.items():
        if number:
            total[key] = total.get(key, 0) + number


def _subtract(total: dict[_H, int], less: Mapping[_H, int]) -> None:
    for key, number in less.items():
        if number:
            total[key] -= number
            if not total[key]:
                del total[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The data of the cluster that gpuspawner could read, what is unknown, and the age of the data.

    :param nodes: all nodes; None if gpuspawner could not read them: capacity is then unknown, not zero.
    :param reason: one sentence for users about what is unknown and why; empty if everything was read.
    :param occupancy: nodes and the pods of all namespaces, kept up to date by watches; None if gpuspawner could not
        read the nodes or the pods: free resources are then unknown.
    :param empty_occupancy: an :class:`Occupancy` with the nodes and without pods, which :func:`get_occupancy` returns
        while pods are unknown. With None, :func:`get_occupancy` builds one.
    :param scalable_pools: node pools that autoscalers publish; None if they could not be read, empty if none exist.
    :param dra_resources: extended resources that map to DRA device classes; None if they could not be read.
    :param priority_classes: the cluster's PriorityClasses; None if they could not be read.
    :param runtime_classes: the cluster's RuntimeClasses; None if they could not be read.
    :param age_s: seconds since the API server last confirmed this data; None if unknown.
    :param generation: number that grows with each change of the data.
    """

    nodes: tuple[Node, ...] | None = None
    reason: str = ""
    occupancy: Occupancy | None = None
    empty_occupancy: Occupancy | None = None
    scalable_pools: tuple[ScalableNodePool, ...] | None = ()
    dra_resources: frozenset[str] | None = frozenset()
    priority_classes: tuple[PriorityClass, ...] | None = None
    runtime_classes: tuple[RuntimeClass, ...] | None = None
    age_s: float | None = None
    generation: int = 0


class KnownOccupancy(NamedTuple):
    """The nodes and the known pods of an :class:`Inventory`.

    :param pods_known: whether the pods of all namespaces are known; if False, nodes may have smaller free amounts than
        ``occupancy`` says.
    """

    occupancy: Occupancy
    pods_known: bool


def get_occupancy(inventory: Inventory) -> KnownOccupancy | None:
    """Return the nodes and the known pods of an inventory, or None if the nodes are unknown."""
    if inventory.occupancy is not None:
        return KnownOccupancy(inventory.occupancy, pods_known=True)
    if inventory.nodes is None:
        return None
    return KnownOccupancy(inventory.empty_occupancy or Occupancy.build(inventory.nodes, ()), pods_known=False)
