"""What the cluster has and what is taken, always at hand: nodes and pods, watched once for everybody in this process.

What Karpenter may add and what DRA drivers offer is read beside them; whether that succeeds matters to nothing else.

Whatever goes wrong ends up as an inventory that says what is not known and why, or how old it is: a form must not fail,
nor wait, because the API server does. Knows neither forms nor users.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as random_numbers
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from kubernetes_asyncio.client import CustomObjectsApi

from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.text.i18n import gettext_lazy
from gpuspawner.kube.client.access import find_missing_verb
from gpuspawner.kube.client.api_requests import APIMethod
from gpuspawner.kube.client.pacing import SteadyClock
from gpuspawner.kube.resources import dra_devices
from gpuspawner.kube.resources.karpenter_node_pools import KarpenterNodePools
from gpuspawner.kube.watch.object_caches import NodeCache, ObjectCache, PodCache
from gpuspawner.kube.watch.watch import Watch, WatchedResource, WatchTiming
from gpuspawner.kube.watch.watch_loop import BEING_READ_AGAIN, HUB_STOPPING, NOT_READ_YET, RetryDelays, WatchLoop

NODES_PER_PAGE = 100
PODS_PER_PAGE = 500
"""About as many bytes as :data:`NODES_PER_PAGE` nodes: a node carries its labels and the list of its images."""
DEVICES_PER_PAGE = 100
"""Of DRA's objects; a slice may have 128 devices."""

RUNNING_PODS_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold or wait for resources; one without a phase yet is among them. In a watch, one that finishes leaves the
selection and arrives as DELETED (``cacher/cache_watcher.go``, ``convertToWatchEvent``)."""

STALE_AFTER_S = 45.0
"""Age in seconds that is never reached while all goes well."""


class CoreAPI(Protocol):
    """What is used of ``kubernetes_asyncio.client.CoreV1Api``."""

    @property
    def api_client(self) -> Any:
        """The client it sends through."""

    @property
    def list_node(self) -> APIMethod:
        """List or watch nodes."""

    @property
    def list_pod_for_all_namespaces(self) -> APIMethod:
        """List or watch pods everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTiming:
    """How long things take, and by what clock.

    :param first_sync_timeout_s: seconds that questions wait for the first reading of the cluster.
    :param clock: monotonic seconds; :param random: numbers from 0 up to 1.
    """

    first_sync_timeout_s: float = 3.0
    timing: WatchTiming = field(default_factory=WatchTiming)
    pauses: RetryDelays = field(default_factory=RetryDelays)
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random_numbers.random


class ClusterStore:
    """One per hub process and event loop. It begins to read with the first question and ends with :meth:`stop`.

    :param api: a client that belongs to the running event loop.
    :param log: gets one line when what can be read changes.
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
        self._clock = SteadyClock(self._pace.clock)
        self._occupancy = Occupancy()
        self._followers: dict[str, WatchLoop] = {}
        self._nodes = self._make_watch_loop(gettext_lazy("the cluster's nodes"), "nodes")
        self._pods = self._make_watch_loop(gettext_lazy("the pods of all namespaces"), "pods")
        self._node_pools = KarpenterNodePools(api.api_client, clock=self._clock, answer_s=self._pace.timing.answer_s)
        self._devices = dra_devices.DRADevices(self._follow_devices, occupancy=self._occupancy)
        self._tasks: list[asyncio.Task[None]] = []
        self._watches: list[Watch] = []
        self._patient_until = 0.0
        self._is_stopped = False
        self._known = (False, False)
        self._switches = 0
        self._said = ""

    async def read_inventory(self) -> Inventory:
        """Return what the cluster has, from memory; only before the first reading is done this waits for a moment."""
        if self._is_stopped:
            return Inventory(reason=HUB_STOPPING)
        now = asyncio.get_running_loop().time()
        if not self._tasks:
            self._start()
            self._patient_until = now + self._pace.first_sync_timeout_s
        if now < self._patient_until:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patient_until - now):
                    await self._nodes.first_attempt.wait()
                    await self._pods.first_attempt.wait()
                    await self._node_pools.first_attempt.wait()
                    await self._devices.wait_for_first_attempt()
        for watch in tuple(self._watches):
            await watch.catch_up()
        self._devices.update(since=(self._nodes.confirmed_at or 0.0) - STALE_AFTER_S)
        return self._build_inventory()

    @property
    def age_s(self) -> float | None:
        """Seconds since what is known of nodes and pods was confirmed; None while nothing is known."""
        known = [follower for follower in (self._nodes, self._pods) if follower.is_known]
        if not self._nodes.is_known:
            return None
        return self._clock() - min(follower.confirmed_at or 0.0 for follower in known)

    @property
    def restarts(self) -> dict[str, int]:
        """How often reading each resource failed and began again, by its plural."""
        return {resource: follower.restarts for resource, follower in self._followers.items()}

    async def stop(self) -> None:
        """End the watches; afterwards nothing of the cluster is known."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _make_watch_loop(self, what: str, resource: str, *, group: str = "") -> WatchLoop:
        pace = self._pace
        review = partial(find_missing_verb, self._api.api_client, resource, timeout_s=pace.timing.answer_s, group=group)
        follower = WatchLoop(
            what, find_missing_verb=review, pauses=pace.pauses, random=pace.random, on_change=self._note_change
        )
        self._followers[resource] = follower
        return follower

    def _start(self) -> None:
        nodes = WatchedResource(method=self._api.list_node, page_size=NODES_PER_PAGE)
        pods = WatchedResource(
            method=self._api.list_pod_for_all_namespaces,
            page_size=PODS_PER_PAGE,
            selectors={"field_selector": RUNNING_PODS_SELECTOR},
        )
        self._tasks = [
            self._run(self._nodes, nodes, cache=NodeCache(self._occupancy)),
            self._run(self._pods, pods, cache=PodCache(self._occupancy)),
            asyncio.create_task(self._node_pools.run()),
        ]
        self._devices.start()

    def _follow_devices(self, plural: str, cache: ObjectCache[Any]) -> WatchLoop:
        # In clients that are older than the API, too.
        method = CustomObjectsApi(self._api.api_client).list_cluster_custom_object
        resource = WatchedResource(
            method=partial(method, dra_devices.DRA_GROUP, "v1", plural), page_size=DEVICES_PER_PAGE
        )
        follower = self._make_watch_loop(f"the cluster's {plural}", plural, group=dra_devices.DRA_GROUP)
        self._tasks.append(self._run(follower, resource, cache=cache))
        return follower

    def _run(self, watch_loop: WatchLoop, resource: WatchedResource, *, cache: ObjectCache[Any]) -> asyncio.Task[None]:
        watch = Watch(
            resource,
            cache,
            confirm=watch_loop.confirm,
            timing=self._pace.timing,
            clock=self._clock,
            random=self._pace.random,
        )
        self._watches.append(watch)
        return asyncio.create_task(watch_loop.run(watch))

    def _build_inventory(self) -> Inventory:
        nodes, pods = self._nodes, self._pods
        generation = (
            self._occupancy.generation + self._switches + self._node_pools.generation + self._devices.generation
        )
        if not nodes.is_known:
            return Inventory(reason=nodes.reason or NOT_READ_YET, generation=generation)
        return Inventory(
            nodes=self._occupancy.nodes,
            occupancy=self._occupancy if pods.is_known else None,
            reason=self._find_reason(),
            scalable_pools=self._node_pools.scalable_node_pools,
            dra_resources=self._devices.resources,
            age_s=self.age_s,
            generation=generation,
        )

    def _find_reason(self) -> str:
        """Return why something is not known, or is old; empty when all is as it should be."""
        now = self._clock()
        for follower in (self._nodes, self._pods):
            if not follower.is_known:
                return follower.reason or NOT_READ_YET
            if now - (follower.confirmed_at or 0.0) > STALE_AFTER_S:
                return follower.reason or BEING_READ_AGAIN
        return ""

    def _note_change(self) -> None:
        """Take notice of a change in what is known: answers are different ones from now on, and the log says so."""
        known = (self._nodes.is_known, self._pods.is_known)
        self._switches += known != self._known
        if not (self._nodes.first_attempt.is_set() and self._pods.first_attempt.is_set()):
            self._known = known
            return
        reason = self._find_reason()
        if known != self._known or bool(reason) != bool(self._said):
            if reason or self._said:
                self._log.warning("Capacity: %s", reason or "Everything can be read again.")
            self._said = reason
        self._known = known
