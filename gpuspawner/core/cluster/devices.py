"""What DRA drivers publish and what of it a node has, as plain values.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuspawner.core.cluster.device_selectors import DeviceSelector
from gpuspawner.core.cluster.interning import intern_amounts
from gpuspawner.core.cluster.model import Node


class DeviceId(NamedTuple):
    """What tells a device from all others."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The few facts of a device that counting needs.

    :param attributes: name with domain (``gpu.nvidia.com/type``) → text; others are left out.
    :param tainted: pods that do not tolerate it get another one (``NoSchedule``, ``NoExecute``).
    :param uncountable: whether it can be given away depends on more than whether somebody has it: on parts that other
        devices use, on shares, on conditions.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    tainted: bool = False
    uncountable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice:
    """A ResourceSlice (resource.k8s.io/v1): a part of a driver's pool of devices.

    :param generation: slices of the same pool with a smaller one are out of date.
    :param slice_count: how many slices the pool has in this generation.
    :param node: the only node that the devices can be used on, None where that is not one by its name.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    node: str | None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A DeviceClass (resource.k8s.io/v1).

    :param created: ``metadata.creationTimestamp`` as the API server wrote it, so texts sort by age.
    :param resource: extended resource that stands for one device of the class, empty where none does.
    """

    name: str
    created: str = ""
    resource: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A ResourceClaim (resource.k8s.io/v1).

    :param held_devices: devices that nobody else can get.
    """

    name: str
    namespace: str
    held_devices: frozenset[DeviceId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """The devices on one node, counted by extended resource.

    :param capacity: all there are, also those that cannot be given away for the time being.
    :param allocatable: of these, what can be given away.
    :param claimed: of these, what claims hold.
    :param uncounted: resources of which nobody can tell how many can be given away.
    """

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    claimed: Mapping[str, int] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDevices:
    """The devices on all nodes.

    :param nodes: by the node's name; those without devices are left out.
    :param on_unknown_nodes: resources of which any node may have some, nobody can tell which.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    on_unknown_nodes: frozenset[str] = frozenset()

    def get_node_devices(self, node: str) -> NodeDevices:
        """Return what a node is known to have."""
        return self.nodes.get(node, _NO_DEVICES)


class EquippedNode(NamedTuple):
    """A node with its devices, and what claims hold of them."""

    node: Node
    claimed: Mapping[str, int]


_NO_DEVICES = NodeDevices()
_NO_AMOUNTS: Mapping[str, int] = {}


def equip_node(
    node: Node, node_devices: NodeDevices, *, on_unknown_nodes: frozenset[str] = frozenset()
) -> EquippedNode:
    """Return a node with its devices as amounts of extended resources.

    Only where kubelet has none of a resource to give away does kube-scheduler look for devices instead
    (plugins/noderesources/fit.go, ``shouldDelegateResourceToDRA``).

    :param on_unknown_nodes: as in :class:`ClusterDevices`.
    """
    published = {*node_devices.capacity, *node_devices.uncounted}
    names = {name for name in published | on_unknown_nodes if node.allocatable.get(name, 0) <= 0}
    if not names:
        return EquippedNode(node, _NO_AMOUNTS)
    counted = sorted(names - node_devices.uncounted - on_unknown_nodes)
    return EquippedNode(
        replace(
            node,
            capacity=intern_amounts({**node.capacity, **{name: node_devices.capacity[name] for name in counted}}),
            allocatable=intern_amounts(
                {**node.allocatable, **{name: node_devices.allocatable.get(name, 0) for name in counted}}
            ),
            uncounted=frozenset(names.difference(counted)),
            published_by_dra=frozenset(names & published),
        ),
        {name: node_devices.claimed[name] for name in counted if node_devices.claimed.get(name)},
    )
