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

from gpuspawner.core.device_selectors import picks
from gpuspawner.core.devices import Device, DeviceClaim, DeviceClass, DeviceId, Devices, DeviceSlice, NodeDevices


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What there is, whoever has it.

    :param nodes: by the node's name.
    :param given: devices that can be given away → their node, and the resources that stand for them.
    :param anywhere: as in :class:`~gpuspawner.core.devices.Devices`.
    """

    nodes: Mapping[str, NodeDevices] = field(default_factory=dict)
    given: Mapping[DeviceId, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    anywhere: frozenset[str] = frozenset()

    def held_by(self, claims: Iterable[DeviceClaim] | None) -> Devices:
        """Return what there is with what claims hold of it.

        :param claims: None where they cannot be read: nobody can tell then what is free.
        """
        if claims is None:
            nodes = {
                name: NodeDevices(uncounted=each.uncounted.union(each.capacity)) for name, each in self.nodes.items()
            }
            return Devices(nodes=nodes, anywhere=self.anywhere)
        taken: dict[str, Counter[str]] = {}
        for device in {device for claim in claims for device in claim.held}:
            node, resources = self.given.get(device, ("", ()))
            if resources:
                taken.setdefault(node, Counter()).update(resources)
        held = {name: replace(self.nodes[name], taken=dict(amounts)) for name, amounts in taken.items()}
        return Devices(nodes={**self.nodes, **held}, anywhere=self.anywhere)


NOTHING = Offered()


def offered(classes: Iterable[DeviceClass], slices: Iterable[DeviceSlice] | None) -> Offered:
    """Return what devices there are by extended resource.

    :param slices: None where they are not known (yet).
    """
    by_resource = _in_charge(classes)
    if slices is None or not by_resource:
        return Offered(anywhere=frozenset(by_resource))
    count = _Count(by_resource)
    for pool in _newest(slices):
        count.add(pool)
    return count.result()


def _in_charge(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that each resource stands for: the newest, of equally new ones the first by name."""
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    return {each.resource: each for each in sorted(by_name, key=lambda each: each.created) if each.resource}


def _newest(slices: Iterable[DeviceSlice]) -> Iterable[list[DeviceSlice]]:
    """Return each pool's slices of the newest generation."""
    pools: dict[tuple[str, str], list[DeviceSlice]] = {}
    for each in slices:
        pool = pools.setdefault((each.driver, each.pool), [])
        if pool and each.generation > pool[0].generation:
            pool.clear()
        if not pool or each.generation == pool[0].generation:
            pool.append(each)
    return pools.values()


def _is_whole(pool: list[DeviceSlice]) -> bool:
    """Tell whether all slices of a pool are there, and no name twice; nothing is given away of others."""
    names = [device.name for each in pool for device in each.devices]
    return {each.slices for each in pool} == {len(pool)} and len(set(names)) == len(names)


class _Count:
    """Counts device by device."""

    def __init__(self, by_resource: Mapping[str, DeviceClass]) -> None:
        self._by_resource = by_resource
        self._capacity: dict[str, Counter[str]] = {}
        self._allocatable: dict[str, Counter[str]] = {}
        self._uncounted: dict[str, set[str]] = {}
        self._given: dict[DeviceId, tuple[str, tuple[str, ...]]] = {}
        self._anywhere: set[str] = set()

    def add(self, pool: list[DeviceSlice]) -> None:
        """Count the devices of a pool."""
        is_whole = _is_whole(pool)
        for each in pool:
            for device in each.devices:
                resources = self._resources(device, each)
                if each.node is not None and resources:
                    self._capacity.setdefault(each.node, Counter()).update(resources)
                    if is_whole and not device.tainted:
                        self._allocatable.setdefault(each.node, Counter()).update(resources)
                        self._given[DeviceId(each.driver, each.pool, device.name)] = each.node, resources

    def result(self) -> Offered:
        """Return what was counted."""
        nodes = {
            name: NodeDevices(
                capacity=dict(self._capacity.get(name, {})),
                allocatable=dict(self._allocatable.get(name, {})),
                uncounted=frozenset(self._uncounted.get(name, ())),
            )
            for name in {*self._capacity, *self._uncounted}
        }
        return Offered(nodes=nodes, given=self._given, anywhere=frozenset(self._anywhere))

    def _resources(self, device: Device, part: DeviceSlice) -> tuple[str, ...]:
        """Return the resources that stand for a device; note those of which that is not sure."""
        sure: list[str] = []
        for resource, device_class in self._by_resource.items():
            is_meant = picks(device_class.selectors, device.attributes, driver=part.driver)
            if is_meant is False:
                continue
            if part.node is None:
                self._anywhere.add(resource)
            elif is_meant is None or device.special:
                self._uncounted.setdefault(part.node, set()).add(resource)
            else:
                sure.append(resource)
        return tuple(sure)
