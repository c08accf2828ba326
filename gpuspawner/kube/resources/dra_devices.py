"""Watches DeviceClasses; once a DeviceClass names an extended resource, also ResourceSlices and ResourceClaims.

These are the resources of Dynamic Resource Allocation (DRA). In a cluster without such a DeviceClass, the hub watches
only DeviceClasses, which rarely change. If one of the resources cannot be read, or the data is stale, the number of
devices is unknown. This is not an error.
https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuspawner.core.cluster import dra
from gpuspawner.core.cluster.dra import DeviceClass, DeviceCounter, OfferedDevices, ResourceClaim, ResourceSlice
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.kube.client.api_requests import NOT_SERVED
from gpuspawner.kube.watch.object_caches import ObjectCache, VersionedCache
from gpuspawner.kube.watch.watch_loop import WatchLoop

DRA_GROUP = "resource.k8s.io"
DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS = "deviceclasses", "resourceslices", "resourceclaims"


class DRADevices:
    """Watches DRA's resources and keeps the devices in the cluster's :class:`Occupancy` up to date.

    :param follow: function that starts to watch a resource and returns the :class:`WatchLoop`. Its arguments are
        the plural name of a resource of :data:`DRA_GROUP`, and the cache for the resource's objects.
    :param occupancy: nodes and pods of the cluster; receives the devices.
    :ivar resources: names of the extended resources that DRA provides, or None if unknown.
    :ivar generation: number of changes of ``resources`` so far.
    """

    def __init__(self, follow: Callable[[str, ObjectCache[Any]], WatchLoop], *, occupancy: Occupancy) -> None:
        self._follow = follow
        self._occupancy = occupancy
        self._classes = VersionedCache(dra.decode_device_class, on_put=self._note_class)
        self._slices: VersionedCache[ResourceSlice] = VersionedCache(dra.decode_resource_slice)
        self._claims: VersionedCache[ResourceClaim] = VersionedCache(dra.decode_resource_claim)
        self._watch_loops: list[WatchLoop] = []
        self.resources: frozenset[str] | None = None
        self.generation = 0
        self._last_resources: frozenset[str] = frozenset()
        self._counts = DeviceCounter()
        self._offered = OfferedDevices()
        self._seen: tuple[object, ...] = ()

    def start(self) -> None:
        """Start to watch DeviceClasses."""
        self._watch_loops.append(self._follow(DEVICE_CLASSES, self._classes))

    def update(self, *, since: float) -> None:
        """Update the devices in the :class:`Occupancy`, if the data has changed.

        :param since: data that the API server last confirmed before this time counts as unknown. The clock is that of
            :attr:`.WatchLoop.confirmed_at`.
        """
        fresh = [each.is_known and (each.confirmed_at or 0.0) >= since for each in self._watch_loops]
        classes_known, slices_known, claims_known = (*fresh, False, False)[:3]
        self._update_resources(is_known=classes_known)
        offer = (self._classes.version, self._slices.version)
        seen = (*offer, self._claims.version, self._last_resources, *fresh)
        if seen == self._seen:
            return
        if offer != self._seen[: len(offer)]:
            self._offered = self._counts.count_devices(self._classes.list_values(), self._slices.list_values())
        found, is_all = self._offered, classes_known and slices_known
        if not is_all:
            found = replace(found, on_unknown_nodes=found.on_unknown_nodes | self._last_resources)
        self._occupancy.put_devices(
            found.subtract_claims(self._claims.list_values() if is_all and claims_known else None)
        )
        self._seen = seen

    def _update_resources(self, *, is_known: bool) -> None:
        previous, self.resources = self.resources, None
        if is_known:
            self.resources = frozenset(each.resource for each in self._classes.list_values() if each.resource)
        elif any(each.missing_right == NOT_SERVED for each in self._watch_loops[:1]):
            self.resources = frozenset()
        if self.resources is not None:
            self._last_resources = self.resources
        self.generation += self.resources != previous

    def _note_class(self, device_class: DeviceClass) -> None:
        if device_class.resource and len(self._watch_loops) == 1:
            self._watch_loops += [
                self._follow(RESOURCE_SLICES, self._slices),
                self._follow(RESOURCE_CLAIMS, self._claims),
            ]
