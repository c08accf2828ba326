"""How many devices of each extended resource the nodes have, and how many of them claims hold.

As kube-scheduler counts them for a pod that asks for an extended resource (Kubernetes 1.36): the newest DeviceClass
with that resource decides which devices are meant, and only untainted ones of a complete pool are given away
(``extendedresourcecache.go``, ``allocator_incubating.go``, ``pools_incubating.go``). What would take more to decide is
said as uncounted: selectors of another form, devices that are parts of others or shared, devices of several nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuspawner.core.cluster.dra_model import (
    ClusterDevices,
    Device,
    DeviceClass,
    DeviceId,
    NodeDevices,
    ResourceClaim,
    ResourceSlice,
    selects_device,
)

_DevicePoolId = tuple[str, str]
"""Driver, and what it calls the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDevices:
    """What there is, whoever has it.

    :param nodes: by the node's name.
    :param allocatable_devices: pool → its devices that can be given away → their node, and the resources that stand
        for them.
    :param on_unknown_nodes: as in :class:`~gpuspawner.core.cluster.dra_model.ClusterDevices`.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    allocatable_devices: Mapping[_DevicePoolId, Mapping[DeviceId, tuple[str, tuple[str, ...]]]] = field(
        default_factory=dict
    )
    on_unknown_nodes: frozenset[str] = frozenset()

    def subtract_claims(self, claims: Iterable[ResourceClaim] | None) -> ClusterDevices:
        """Return what there is with what claims hold of it.

        :param claims: None where they, or whether this is all there is, cannot be told: nobody can tell then what is
            free.
        """
        if claims is None:
            nodes = {
                name: NodeDevices(uncounted=each.uncounted.union(each.capacity)) for name, each in self.nodes.items()
            }
            return ClusterDevices(nodes=nodes, on_unknown_nodes=self.on_unknown_nodes)
        taken: dict[str, Counter[str]] = {}
        for device in {device for claim in claims for device in claim.held_devices}:
            node, resources = self.allocatable_devices.get((device.driver, device.pool), {}).get(device, ("", ()))
            if resources:
                taken.setdefault(node, Counter()).update(resources)
        held = {name: replace(self.nodes[name], claimed=dict(amounts)) for name, amounts in taken.items()}
        return ClusterDevices(nodes={**self.nodes, **held}, on_unknown_nodes=self.on_unknown_nodes)


class DeviceCounter:
    """Counts devices, and those of a pool again only when one of its slices or a class is another one."""

    def __init__(self) -> None:
        self._by_resource: dict[str, DeviceClass] = {}
        self._pools: dict[_DevicePoolId, tuple[list[ResourceSlice], OfferedDevices]] = {}

    def count_devices(self, classes: Iterable[DeviceClass], slices: Iterable[ResourceSlice]) -> OfferedDevices:
        """Return what devices there are by extended resource."""
        by_resource = _select_newest_classes(classes)
        if by_resource != self._by_resource:
            self._by_resource, self._pools = by_resource, {}
        if not by_resource:
            return OfferedDevices()
        known, self._pools = self._pools, {}
        for name, pool in _select_newest_slices(slices).items():
            before = known.get(name)
            self._pools[name] = before if before and before[0] == pool else (pool, self._count(pool))
        return _merge_pools(found for _, found in self._pools.values())

    def _count(self, pool: list[ResourceSlice]) -> OfferedDevices:
        count = _PoolCounter(self._by_resource)
        count.add(pool)
        return count.build_result()


def _select_newest_classes(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that each resource stands for: the newest, of equally new ones the first by name."""
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    return {each.resource: each for each in sorted(by_name, key=lambda each: each.created) if each.resource}


def _select_newest_slices(slices: Iterable[ResourceSlice]) -> dict[_DevicePoolId, list[ResourceSlice]]:
    """Return each pool's slices of the newest generation."""
    pools: dict[_DevicePoolId, list[ResourceSlice]] = {}
    for each in slices:
        pool = pools.setdefault((each.driver, each.pool), [])
        if pool and each.generation > pool[0].generation:
            pool.clear()
        if not pool or each.generation == pool[0].generation:
            pool.append(each)
    return pools


def _merge_pools(pools: Iterable[OfferedDevices]) -> OfferedDevices:
    """Return what several pools offer; a node may have devices of more than one."""
    nodes: dict[str, NodeDevices] = {}
    given: dict[_DevicePoolId, Mapping[DeviceId, tuple[str, tuple[str, ...]]]] = {}
    anywhere: set[str] = set()
    for each in pools:
        given.update(each.allocatable_devices)
        anywhere |= each.on_unknown_nodes
        for name, found in each.nodes.items():
            nodes[name] = _add_node_devices(nodes[name], found) if name in nodes else found
    return OfferedDevices(nodes=nodes, allocatable_devices=given, on_unknown_nodes=frozenset(anywhere))


def _add_node_devices(one: NodeDevices, other: NodeDevices) -> NodeDevices:
    return NodeDevices(
        capacity=dict(Counter(one.capacity) + Counter(other.capacity)),
        allocatable=dict(Counter(one.allocatable) + Counter(other.allocatable)),
        uncounted=one.uncounted | other.uncounted,
    )


def _is_complete(pool: list[ResourceSlice]) -> bool:
    """Tell whether all slices of a pool are there, and no name twice; nothing is given away of others."""
    names = [device.name for each in pool for device in each.devices]
    return {each.slice_count for each in pool} == {len(pool)} and len(set(names)) == len(names)


class _PoolCounter:
    """Counts the devices of one pool."""

    def __init__(self, by_resource: Mapping[str, DeviceClass]) -> None:
        self._by_resource = by_resource
        self._capacity: dict[str, Counter[str]] = {}
        self._allocatable: dict[str, Counter[str]] = {}
        self._uncounted: dict[str, set[str]] = {}
        self._allocatable_devices: dict[_DevicePoolId, dict[DeviceId, tuple[str, tuple[str, ...]]]] = {}
        self._on_unknown_nodes: set[str] = set()

    def add(self, pool: list[ResourceSlice]) -> None:
        """Count them."""
        is_whole = _is_complete(pool)
        for each in pool:
            for device in each.devices:
                resources = self._find_resources(device, each)
                if each.node is not None and resources:
                    self._capacity.setdefault(each.node, Counter()).update(resources)
                    if is_whole and not device.tainted:
                        self._allocatable.setdefault(each.node, Counter()).update(resources)
                        found = DeviceId(each.driver, each.pool, device.name)
                        self._allocatable_devices.setdefault((each.driver, each.pool), {})[found] = each.node, resources

    def build_result(self) -> OfferedDevices:
        """Return what was counted."""
        nodes = {
            name: NodeDevices(
                capacity=dict(self._capacity.get(name, {})),
                allocatable=dict(self._allocatable.get(name, {})),
                uncounted=frozenset(self._uncounted.get(name, ())),
            )
            for name in {*self._capacity, *self._uncounted}
        }
        return OfferedDevices(
            nodes=nodes,
            allocatable_devices=self._allocatable_devices,
            on_unknown_nodes=frozenset(self._on_unknown_nodes),
        )

    def _find_resources(self, device: Device, part: ResourceSlice) -> tuple[str, ...]:
        """Return the resources that stand for a device; note those of which that is not sure."""
        sure: list[str] = []
        for resource, device_class in self._by_resource.items():
            is_meant = selects_device(device_class.selectors, device.attributes, driver=part.driver)
            if is_meant is False:
                continue
            if part.node is None:
                self._on_unknown_nodes.add(resource)
            elif is_meant is None or device.uncountable:
                self._uncounted.setdefault(part.node, set()).add(resource)
            else:
                sure.append(resource)
        return tuple(sure)
