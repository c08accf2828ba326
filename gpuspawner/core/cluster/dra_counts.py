"""Count the DRA devices of each extended resource on the nodes, and those that ResourceClaims hold.

kube-scheduler allocates devices to a pod that requests an extended resource; this module counts by the same rules
(Kubernetes 1.36, ``extendedresourcecache.go``, ``allocator_incubating.go``, ``pools_incubating.go``). The newest
DeviceClass whose ``extendedResourceName`` is the resource selects the devices. A device is allocatable if it has no
taint that keeps pods off, and if the device's pool has all its ResourceSlices.

The number of a resource's devices on a node is unknown ("uncounted") if gpuspawner does not support a selector of the
DeviceClass, or if devices are partitioned, shared, or usable from several nodes.
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
"""(name of the DRA driver, name of the driver's pool of devices)"""
_ResourcesByDevice = Mapping[DeviceId, tuple[str, tuple[str, ...]]]
"""Device → (name of its node, extended resources for which the device counts)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDevices:
    """All devices that DRA drivers publish, whether or not ResourceClaims hold them.

    :param nodes: node name → numbers of the node's devices; ``claimed`` is empty.
    :param allocatable_devices: pool → device that a ResourceClaim can hold (or holds) → (name of the device's node,
        extended resources for which the device counts).
    :param on_unknown_nodes: extended resources with devices that more than one node can use. gpuspawner cannot tell
        which node has such a device.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    allocatable_devices: Mapping[_DevicePoolId, _ResourcesByDevice] = field(default_factory=dict)
    on_unknown_nodes: frozenset[str] = frozenset()

    def subtract_claims(self, claims: Iterable[ResourceClaim] | None) -> ClusterDevices:
        """Return the devices of all nodes, with the number of devices that ResourceClaims hold on each node.

        :param claims: all claims of the cluster; None if the caller does not know all claims or all devices. With None,
            every resource in the result has an unknown number of devices.
        """
        if claims is None:
            nodes = {
                name: NodeDevices(uncounted=each.uncounted.union(each.capacity)) for name, each in self.nodes.items()
            }
            return ClusterDevices(nodes=nodes, on_unknown_nodes=self.on_unknown_nodes)
        claimed: dict[str, Counter[str]] = {}
        for device in {device for claim in claims for device in claim.held_devices}:
            node, resources = self.allocatable_devices.get((device.driver, device.pool), {}).get(device, ("", ()))
            if resources:
                claimed.setdefault(node, Counter()).update(resources)
        changed = {name: replace(self.nodes[name], claimed=dict(amounts)) for name, amounts in claimed.items()}
        return ClusterDevices(nodes={**self.nodes, **changed}, on_unknown_nodes=self.on_unknown_nodes)


class DeviceCounter:
    """Counts DRA devices; caches the counts of a pool until the pool's ResourceSlices or the DeviceClasses change."""

    def __init__(self) -> None:
        self._by_resource: dict[str, DeviceClass] = {}
        self._pools: dict[_DevicePoolId, tuple[list[ResourceSlice], OfferedDevices]] = {}

    def count_devices(self, classes: Iterable[DeviceClass], slices: Iterable[ResourceSlice]) -> OfferedDevices:
        """Return the number of DRA devices of each extended resource on each node.

        :param classes: all DeviceClasses.
        :param slices: all ResourceSlices.
        """
        by_resource = _select_newest_classes(classes)
        if by_resource != self._by_resource:
            self._by_resource, self._pools = by_resource, {}
        if not by_resource:
            return OfferedDevices()
        before, self._pools = self._pools, {}
        for name, pool in _select_newest_slices(slices).items():
            cached = before.get(name)
            self._pools[name] = cached if cached and cached[0] == pool else (pool, self._count(pool))
        return _merge_pools(devices for _, devices in self._pools.values())

    def _count(self, pool: list[ResourceSlice]) -> OfferedDevices:
        counter = _PoolCounter(self._by_resource)
        counter.add(pool)
        return counter.build_result()


def _select_newest_classes(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return extended resource → its newest DeviceClass; of several equally new DeviceClasses, the first by name."""
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    return {each.resource: each for each in sorted(by_name, key=lambda each: each.created) if each.resource}


def _select_newest_slices(slices: Iterable[ResourceSlice]) -> dict[_DevicePoolId, list[ResourceSlice]]:
    pools: dict[_DevicePoolId, list[ResourceSlice]] = {}
    for each in slices:
        pool = pools.setdefault((each.driver, each.pool), [])
        if pool and each.generation > pool[0].generation:
            pool.clear()
        if not pool or each.generation == pool[0].generation:
            pool.append(each)
    return pools


def _merge_pools(pools: Iterable[OfferedDevices]) -> OfferedDevices:
    nodes: dict[str, NodeDevices] = {}
    allocatable: dict[_DevicePoolId, _ResourcesByDevice] = {}
    on_unknown_nodes: set[str] = set()
    for pool in pools:
        allocatable.update(pool.allocatable_devices)
        on_unknown_nodes |= pool.on_unknown_nodes
        for name, devices in pool.nodes.items():
            nodes[name] = _add_node_devices(nodes[name], devices) if name in nodes else devices
    return OfferedDevices(nodes=nodes, allocatable_devices=allocatable, on_unknown_nodes=frozenset(on_unknown_nodes))


def _add_node_devices(one: NodeDevices, other: NodeDevices) -> NodeDevices:
    return NodeDevices(
        capacity=dict(Counter(one.capacity) + Counter(other.capacity)),
        allocatable=dict(Counter(one.allocatable) + Counter(other.allocatable)),
        uncounted=one.uncounted | other.uncounted,
    )


def _is_complete(pool: list[ResourceSlice]) -> bool:
    """Return whether a pool of DRA devices has all its ResourceSlices and no duplicate device names.

    kube-scheduler allocates no devices of an incomplete pool.
    """
    names = [device.name for each in pool for device in each.devices]
    return {each.slice_count for each in pool} == {len(pool)} and len(set(names)) == len(names)


class _PoolCounter:
    def __init__(self, by_resource: Mapping[str, DeviceClass]) -> None:
        self._by_resource = by_resource
        self._capacity: dict[str, Counter[str]] = {}
        self._allocatable: dict[str, Counter[str]] = {}
        self._uncounted: dict[str, set[str]] = {}
        self._allocatable_devices: dict[_DevicePoolId, dict[DeviceId, tuple[str, tuple[str, ...]]]] = {}
        self._on_unknown_nodes: set[str] = set()

    def add(self, pool: list[ResourceSlice]) -> None:
        is_complete = _is_complete(pool)
        for part in pool:
            for device in part.devices:
                resources = self._find_resources(device, part)
                if part.node is not None and resources:
                    self._capacity.setdefault(part.node, Counter()).update(resources)
                    if is_complete and not device.tainted:
                        self._allocatable.setdefault(part.node, Counter()).update(resources)
                        key = DeviceId(part.driver, part.pool, device.name)
                        self._allocatable_devices.setdefault((part.driver, part.pool), {})[key] = part.node, resources

    def build_result(self) -> OfferedDevices:
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
        """Return the extended resources for which a DRA device counts.

        If gpuspawner cannot count the device for a resource, the function records the resource as one with an unknown
        number of devices.
        """
        counted: list[str] = []
        for resource, device_class in self._by_resource.items():
            is_selected = selects_device(device_class.selectors, device.attributes, driver=part.driver)
            if is_selected is False:
                continue
            if part.node is None:
                self._on_unknown_nodes.add(resource)
            elif is_selected is None or device.uncountable:
                self._uncounted.setdefault(part.node, set()).add(resource)
            else:
                counted.append(resource)
        return tuple(counted)
