"""Keeps nodes and pods in memory, with NodePools, DRA devices, volumes, PriorityClasses and RuntimeClasses.

The form must neither fail nor wait long because of the API server. After a failed request the store therefore returns
an inventory that says what is unknown and why, or how old the data is. If only NodePools, devices, volumes or classes
cannot be read, nodes and pods stay known.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from kubernetes_asyncio.client import CustomObjectsApi

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.text.i18n import gettext_lazy
from gpuspawner.kube.client.api_requests import APIMethod, CoreAPI, find_missing_verb
from gpuspawner.kube.resources import dra_devices, volume_topology
from gpuspawner.kube.resources.karpenter_node_pools import KarpenterNodePools
from gpuspawner.kube.watch.object_caches import NodeCache, ObjectCache, PodCache, VersionedCache
from gpuspawner.kube.watch.watch import Watch, WatchedResource, WatchTiming
from gpuspawner.kube.watch.watch_loop import BEING_READ_AGAIN, HUB_STOPPING, NOT_READ_YET, RetryDelays, WatchLoop

OBJECTS_PER_PAGE = 100
"""Maximum number of objects on one page of a list; parsing 100 pods blocks the event loop for about 5 ms."""
LARGE_OBJECTS_PER_PAGE = 25
"""The same for nodes and DRA objects: labels and image lists make nodes large, and a ResourceSlice may contain 128
devices."""

YOUNG_OBJECTS = 10_000
"""Number of new objects after which Python's garbage collector runs (``gc.set_threshold``); a page has about as many.

With Python's default of 700, a list of 40,000 pods led to 30 full collections, each of which stopped the hub for 0.1 s.
"""
MIDDLE_PER_FULL = 50
"""Number of collections of the middle generation before a full one; a list of 100,000 pods leads to 30."""

PRIORITY_GROUP, PRIORITY_CLASSES = "scheduling.k8s.io", "priorityclasses"
RUNTIME_GROUP, RUNTIME_CLASSES = "node.k8s.io", "runtimeclasses"

RUNNING_PODS_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that use resources or wait for them. It does not match finished pods, so a watch reports
a pod as DELETED when the pod finishes (``cacher/cache_watcher.go``, ``convertToWatchEvent``)."""

_T = TypeVar("_T")

_LONG_WATCHES = 3
"""A watch request for resources that change rarely lasts this many times as long as one for nodes or pods: up to 30 s.

The duration must be less than :data:`STALE_AFTER_S`, so that the data does not become stale during a request.
"""

STALE_AFTER_S = 45.0
"""Age in seconds above which nodes and pods count as stale; they reach this age only after failed requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTiming:
    """Timeouts, retry delays and the source of time.

    :param first_sync_timeout_s: for this many seconds after the first call of :meth:`ClusterStore.read_inventory`, all
        callers of the method wait until the first lists have succeeded or failed.
    """

    first_sync_timeout_s: float = 3.0
    timing: WatchTiming = field(default_factory=WatchTiming)
    pauses: RetryDelays = field(default_factory=RetryDelays)
    clock: Callable[[], float] = time.monotonic


class ClusterStore:
    """Keeps the cluster's state for one hub process; the first call of :meth:`read_inventory` starts the watches.

    :param api: the ``CoreV1Api`` of a client that belongs to the running event loop.
    :param log: receives one line when data becomes unavailable or available again.
    """

    def __init__(
        self,
        api: CoreAPI,
        *,
        pace: StoreTiming | None = None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._api = api
        self._pace = pace or StoreTiming()
        self._log = log or logging.getLogger(__name__)
        self._clock = self._pace.clock
        self._occupancy = Occupancy()
        self._empty_occupancy: Occupancy | None = None
        self._counted_nodes: tuple[Node, ...] | None = None
        self._watch_loops: list[tuple[str, WatchLoop]] = []
        self._nodes = self._make_watch_loop(gettext_lazy("the cluster's nodes"), "nodes")
        self._pods = self._make_watch_loop(gettext_lazy("the pods of all namespaces"), "pods")
        self._node_pools = KarpenterNodePools(api.api_client, clock=self._clock, answer_s=self._pace.timing.answer_s)
        self._devices = dra_devices.DRADevices(
            partial(self._follow, group=dra_devices.DRA_GROUP), occupancy=self._occupancy
        )
        self._volume_limits = volume_topology.VolumeLimits(self._follow_volumes, occupancy=self._occupancy)
        self._priority_classes = VersionedCache(decode.decode_priority_class)
        self._runtime_classes = VersionedCache(decode.decode_runtime_class)
        self._class_watches: dict[str, WatchLoop] = {}
        self._known_classes: tuple[tuple[object, ...] | None, ...] = (None, None)
        self._class_changes = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._first_sync_deadline = 0.0
        self._is_stopped = False
        self._known = (False, False)
        self._known_changes = 0
        self._logged_reason = ""

    async def read_inventory(self) -> Inventory:
        """Return the cluster's state from memory.

        For ``first_sync_timeout_s`` after the first call, callers wait until the first lists have succeeded or failed.
        """
        if self._is_stopped:
            return Inventory(reason=HUB_STOPPING)
        now = asyncio.get_running_loop().time()
        if not self._tasks:
            self._start()
            self._first_sync_deadline = now + self._pace.first_sync_timeout_s
        if now < self._first_sync_deadline:
            # Do not use asyncio.timeout: it cancels the caller's task for a moment. If that task starts a server,
            # gpuspawner would treat the start as cancelled by JupyterHub.
            waiting = asyncio.ensure_future(self._wait_for_first_lists())
            try:
                await asyncio.wait([waiting], timeout=self._first_sync_deadline - now)
            finally:
                waiting.cancel()
        self._devices.update(since=(self._nodes.confirmed_at or 0.0) - STALE_AFTER_S)
        self._volume_limits.update()
        return self.inventory

    async def _wait_for_first_lists(self) -> None:
        await self._node_pools.first_attempt.wait()
        # Do not copy the list: the first objects of a resource may add more watches while this loop waits.
        for _, watch_loop in self._watch_loops:
            await watch_loop.first_attempt.wait()

    async def _freeze_after_first_lists(self) -> None:
        """Exempt the objects of the first lists, and JupyterHub's modules, from later garbage collections."""
        await self._wait_for_first_lists()
        gc.freeze()

    @property
    def age_s(self) -> float | None:
        """Seconds since the data about nodes and pods was last known to be complete; the older of the two counts.

        While the pods are unknown, only the nodes count. While the nodes are unknown, the value is None.
        """
        known = [watch_loop for watch_loop in (self._nodes, self._pods) if watch_loop.is_known]
        if not self._nodes.is_known:
            return None
        return self._clock() - min(watch_loop.confirmed_at or 0.0 for watch_loop in known)

    @property
    def restarts(self) -> dict[str, int]:
        """Plural name of each watched resource → how many of its list and watch requests have failed so far."""
        return {resource: watch_loop.restarts for resource, watch_loop in self._watch_loops}

    async def stop(self) -> None:
        """Stop all watches; afterwards :meth:`read_inventory` returns an empty inventory."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _make_watch_loop(self, description: str, resource: str, *, group: str = "") -> WatchLoop:
        pace, client = self._pace, self._api.api_client
        watch_loop = WatchLoop(
            description,
            find_missing_verb=partial(find_missing_verb, client, resource, timeout_s=pace.timing.answer_s, group=group),
            pauses=pace.pauses,
            on_change=self._note_change,
        )
        self._watch_loops.append((resource, watch_loop))
        return watch_loop

    def _start(self) -> None:
        young, middle, full = gc.get_threshold()
        # 0 means that the admin has turned the collector off.
        if young:
            gc.set_threshold(max(young, YOUNG_OBJECTS), middle, max(full, MIDDLE_PER_FULL))
        nodes = WatchedResource(method=self._api.list_node, page_size=LARGE_OBJECTS_PER_PAGE)
        pods = WatchedResource(
            method=self._api.list_pod_for_all_namespaces,
            page_size=OBJECTS_PER_PAGE,
            selectors={"field_selector": RUNNING_PODS_SELECTOR},
        )
        self._tasks = [
            self._run(self._nodes, nodes, cache=NodeCache(self._occupancy), timing=self._pace.timing),
            self._run(self._pods, pods, cache=PodCache(self._occupancy), timing=self._pace.timing),
            asyncio.create_task(self._node_pools.run()),
            asyncio.create_task(self._freeze_after_first_lists()),
        ]
        self._devices.start()
        self._volume_limits.start()
        self._class_watches = {
            PRIORITY_CLASSES: self._follow(PRIORITY_CLASSES, self._priority_classes, group=PRIORITY_GROUP),
            RUNTIME_CLASSES: self._follow(RUNTIME_CLASSES, self._runtime_classes, group=RUNTIME_GROUP),
        }

    def _follow_volumes(self, plural: str, cache: ObjectCache[Any]) -> WatchLoop:
        group = "" if plural == volume_topology.PERSISTENT_VOLUMES else volume_topology.STORAGE_GROUP
        return self._follow(plural, cache, group=group, page_size=OBJECTS_PER_PAGE)

    def _follow(
        self, plural: str, cache: ObjectCache[Any], *, group: str, page_size: int = LARGE_OBJECTS_PER_PAGE
    ) -> WatchLoop:
        if group:
            # CustomObjectsApi lists any resource; old versions of kubernetes_asyncio have no class for DRA.
            custom = CustomObjectsApi(self._api.api_client).list_cluster_custom_object
            method: APIMethod = partial(custom, group, "v1", plural)
        else:
            method = self._api.list_persistent_volume
        resource = WatchedResource(method=method, page_size=page_size)
        watch_loop = self._make_watch_loop(f"the cluster's {plural}", plural, group=group)
        # These resources change rarely, so each watch request may last longer than one for nodes or pods.
        timing = replace(self._pace.timing, watch_s=_LONG_WATCHES * self._pace.timing.watch_s)
        self._tasks.append(self._run(watch_loop, resource, cache=cache, timing=timing))
        return watch_loop

    def _run(
        self, watch_loop: WatchLoop, resource: WatchedResource, *, cache: ObjectCache[Any], timing: WatchTiming
    ) -> asyncio.Task[None]:
        watch = Watch(
            resource,
            cache,
            confirm=watch_loop.confirm,
            timing=timing,
            clock=self._clock,
        )
        return asyncio.create_task(watch_loop.run(watch))

    @property
    def inventory(self) -> Inventory:
        """The cluster's state in memory; changes of the last :attr:`WatchTiming.batch_s` seconds may be missing."""
        nodes, pods = self._nodes, self._pods
        priority_classes = self._list_classes(PRIORITY_CLASSES, self._priority_classes)
        runtime_classes = self._list_classes(RUNTIME_CLASSES, self._runtime_classes)
        self._class_changes += (priority_classes, runtime_classes) != self._known_classes
        self._known_classes = (priority_classes, runtime_classes)
        generation = (
            self._occupancy.generation
            + self._known_changes
            + self._node_pools.generation
            + self._devices.generation
            + self._class_changes
        )
        if not nodes.is_known:
            return Inventory(reason=nodes.reason or NOT_READ_YET, generation=generation)
        return Inventory(
            nodes=self._occupancy.nodes,
            occupancy=self._occupancy if pods.is_known else None,
            empty_occupancy=None if pods.is_known else self._get_empty_occupancy(),
            reason=self._find_reason(),
            scalable_pools=self._node_pools.scalable_node_pools,
            dra_resources=self._devices.resources,
            priority_classes=priority_classes,
            runtime_classes=runtime_classes,
            age_s=self.age_s,
            generation=generation,
        )

    def _list_classes(self, plural: str, cache: ObjectCache[_T]) -> tuple[_T, ...] | None:
        watch_loop = self._class_watches.get(plural)
        return tuple(cache.list_values()) if watch_loop is not None and watch_loop.is_known else None

    def _get_empty_occupancy(self) -> Occupancy:
        """Return an :class:`Occupancy` (what each node has free) without pods, for use while the pods are unknown.

        The method returns the same object until a node changes.
        """
        nodes = self._occupancy.nodes
        if self._empty_occupancy is None or self._counted_nodes is not nodes:
            self._counted_nodes, self._empty_occupancy = nodes, Occupancy.build(nodes, ())
        return self._empty_occupancy

    def _find_reason(self) -> str:
        now = self._clock()
        for watch_loop in (self._nodes, self._pods):
            if not watch_loop.is_known:
                return watch_loop.reason or NOT_READ_YET
            if now - (watch_loop.confirmed_at or 0.0) > STALE_AFTER_S:
                return watch_loop.reason or BEING_READ_AGAIN
        return ""

    def _note_change(self) -> None:
        known = (self._nodes.is_known, self._pods.is_known)
        self._known_changes += known != self._known
        if not (self._nodes.first_attempt.is_set() and self._pods.first_attempt.is_set()):
            self._known = known
            return
        reason = self._find_reason()
        if known != self._known or bool(reason) != bool(self._logged_reason):
            if reason or self._logged_reason:
                self._log.warning("Capacity: %s", reason or "Everything can be read again.")
            self._logged_reason = reason
        self._known = known
