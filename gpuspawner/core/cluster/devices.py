"""What DRA drivers publish and what of it a node has, as plain values.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuspawner.core.cluster.device_selectors import Selector
from gpuspawner.core.cluster.interning import amounts
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
    :param special: whether it can be given away depends on more than whether somebody has it: on parts that other
        devices use, on shares, on conditions.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    tainted: bool = False
    special: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """A ResourceSlice (resource.k8s.io/v1): a part of a driver's pool of devices.

    :param generation: slices of the same pool with a smaller one are out of date.
    :param slices: how many slices the pool has in this generation.
    :param node: the only node that the devices can be used on, None where that is not one by its name.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
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
    selectors: tuple[Selector, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """A ResourceClaim (resource.k8s.io/v1).

    :param held: devices that nobody else can get.
    """

    name: str
    namespace: str
    held: frozenset[DeviceId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """The devices on one node, counted by extended resource.

    :param capacity: all there are, also those that cannot be given away for the time being.
    :param allocatable: of these, what can be given away.
    :param taken: of these, what claims hold.
    :param uncounted: resources of which nobody can tell how many can be given away.
    """

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices on all nodes.

    :param nodes: by the node's name; those without devices are left out.
    :param anywhere: resources of which any node may have some, nobody can tell which.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    anywhere: frozenset[str] = frozenset()

    def on(self, node: str) -> NodeDevices:
        """Return what a node is known to have."""
        return self.nodes.get(node, _NONE)


class Equipped(NamedTuple):
    """A node with its devices, and what claims hold of them."""

    node: Node
    taken: Mapping[str, int]


_NONE = NodeDevices()
_NOTHING: Mapping[str, int] = {}


def equipped(node: Node, found: NodeDevices, *, anywhere: frozenset[str] = frozenset()) -> Equipped:
    """Return a node with its devices as amounts of extended resources.

    Only where kubelet has none of a resource to give away does kube-scheduler look for devices instead
    (plugins/noderesources/fit.go, ``shouldDelegateResourceToDRA``).

    :param anywhere: as in :class:`Devices`.
    """
    published = {*found.capacity, *found.uncounted}
    names = {name for name in published | anywhere if node.allocatable.get(name, 0) <= 0}
    if not names:
        return Equipped(node, _NOTHING)
    counted = sorted(names - found.uncounted - anywhere)
    return Equipped(
        replace(
            node,
            capacity=amounts({**node.capacity, **{name: found.capacity[name] for name in counted}}),
            allocatable=amounts({**node.allocatable, **{name: found.allocatable.get(name, 0) for name in counted}}),
            uncounted=frozenset(names.difference(counted)),
            published=frozenset(names & published),
        ),
        {name: found.taken[name] for name in counted if found.taken.get(name)},
    )
