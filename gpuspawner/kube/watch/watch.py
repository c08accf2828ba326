"""Lists one resource, then watches it with one request after the other.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes

:class:`GCTuning` prevents full garbage collections while the hub lists a cluster, and makes later ones shorter. A full
collection visits every object of the process and blocks the event loop: 0.1 s for JupyterHub's modules alone, and as
much again for 100,000 pods. A large list triggers many full collections
(https://docs.python.org/3/library/gc.html#gc.set_threshold). These collections free nothing, because the pods' objects
form no reference cycles.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp

from gpuspawner.kube.client.api_requests import (
    APIMethod,
    APIUnavailableError,
    list_each,
    make_unavailable_error,
    send_request,
)
from gpuspawner.kube.client.json_stream import LineSplitter
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.object_caches import ObjectCache
from gpuspawner.kube.watch.pending_events import ListReconciler, PendingEvents, ReadBatcher, RelistError

_NEVER_COLLECT = 2**31 - 1
_COLLECTIONS_PER_FULL = 100
"""Third threshold of ``gc.set_threshold`` after ``gc.freeze``: minimum number of collections of the middle generation
between two full collections. With Python's default of 10, Python ran a full collection while 20 servers started."""


class GCTuning:
    """Adjusts Python's garbage collector while the hub reads large lists. The hub may read several lists at a time."""

    def __init__(self) -> None:
        self._readers = 0
        self._settled = 0
        self._thresholds = gc.get_threshold()

    @contextmanager
    def pause_full_collections(self) -> Iterator[None]:
        """Disable full garbage collections inside this context; collections of young objects continue."""
        if not self._readers:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*self._thresholds[:2], _NEVER_COLLECT)
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                gc.set_threshold(*self._thresholds)

    def freeze(self, object_count: int) -> None:
        """Exempt all present objects from garbage collection, and make full collections rarer.

        Do nothing unless the list is more than twice as long as at the last ``gc.freeze``: Python never frees reference
        cycles among exempt objects (https://docs.python.org/3/library/gc.html#gc.freeze).

        :param object_count: number of objects in the cache after a list.
        """
        if object_count > self._settled:
            self._settled = 2 * object_count
            gc.freeze()
            young, middle, full = self._thresholds if self._readers else gc.get_threshold()
            self._thresholds = (young, middle, max(full, _COLLECTIONS_PER_FULL))
            if not self._readers:
                gc.set_threshold(*self._thresholds)


GC_TUNING = GCTuning()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTiming:
    """Timeouts and intervals of a watch, in seconds.

    :param answer_s: timeout for a connection, and for each piece of a list's response.
    :param watch_s: longest duration of a watch request. The API server sends a bookmark two seconds before the request
        ends (``cacher/cache_watcher.go``, ``nextBookmarkTime``).
    :param grace_s: the hub gives up a connection that is silent for ``watch_s`` + ``grace_s``.
    :param settle_s: how long the API server may need for the first changes after the response's headers. If nothing
        arrives for this long, the hub assumes that nothing has changed since the last watch.
    :param batch_s: longest pause in reading from a watch, see :mod:`gpuspawner.kube.watch.pending_events`.
    """

    answer_s: float = 10.0
    watch_s: float = 10.0
    grace_s: float = 2.0
    settle_s: float = 0.5
    batch_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedResource:
    """A Kubernetes resource to list and watch.

    :param method: list method of a ``kubernetes_asyncio`` API class.
    :param page_size: number of objects on a page of the list.
    :param selectors: ``field_selector`` or ``label_selector`` of the list and watch requests.
    """

    method: APIMethod
    page_size: int
    selectors: Mapping[str, str] = field(default_factory=dict)


IDLE_GAP_S = 0.005
"""Pause between events, in seconds, that shows that a new watch has delivered all changes since the last watch: the API
server sends these changes one directly after the other."""

MAX_SILENT_WATCHES = 6
"""Number of watches in a row without an event or a bookmark after which the hub lists the resource again.

For example, after etcd is restored from a backup, the API server sends nothing until its resourceVersions exceed the
one that the watch names."""


class Watch:
    """Lists and watches one resource; the caller awaits :meth:`relist` first, then :meth:`stream` repeatedly.

    :param resource: what to list and watch.
    :param cache: receives the decoded objects.
    :param confirm: called when the cache is complete, with the time of the request, in seconds of ``clock``.
    :param timing: timeouts and intervals.
    :param clock: monotonic seconds, see :class:`~gpuspawner.kube.client.pacing.SteadyClock`.
    :param random: returns a random number of at least 0 and below 1.
    """

    def __init__(
        self,
        resource: WatchedResource,
        cache: ObjectCache[Any],
        *,
        confirm: Callable[[float], None],
        timing: WatchTiming,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._resource = resource
        self._cache = cache
        self._confirm = confirm
        self._timing = timing
        self._clock = clock
        self._random = random
        self._pacer = Pacer()
        self._pending = PendingEvents(cache)
        self._batcher = ReadBatcher(timing.batch_s)
        self._silent_watches = 0

    @property
    def needs_list(self) -> bool:
        """Whether :meth:`relist` must run before :meth:`stream`."""
        return not self._pending.version

    def forget(self) -> None:
        """Forget the resourceVersion to watch from; the caller must :meth:`relist` before the next :meth:`stream`."""
        self._pending.reset("")
        self._silent_watches = 0

    async def relist(self) -> None:
        """List the resource and apply the list to the cache.

        :raises APIUnavailableError: the list could not be read completely; the cache keeps its objects.
        """
        asked_at = self._clock()
        reconciliation = ListReconciler(self._cache, pacer=self._pacer)
        timing, resource = self._timing, self._resource
        with GC_TUNING.pause_full_collections():
            await reconciliation.begin()
            version = await list_each(
                resource.method,
                reconciliation.record,
                pacer=self._pacer,
                limit=resource.page_size,
                _request_timeout=(timing.answer_s, timing.answer_s),
                **resource.selectors,
            )
            await reconciliation.finish()
        GC_TUNING.freeze(len(self._cache.list_values()))
        self._pending.reset(version)
        self._confirm(asked_at)

    async def clear(self) -> None:
        """Drop all objects of the cache, because the hub lost the right to read them."""
        self.forget()
        for value in self._cache.list_values():
            self._cache.drop(self._cache.make_key(value))
            await self._pacer.yield_if_due()

    async def catch_up(self) -> None:
        """Put the events that have arrived into the cache; callers await this before they read the cache."""
        await self._batcher.catch_up()

    async def stream(self) -> None:
        """Send one watch request and apply its events to the cache until the API server ends it.

        :raises APIUnavailableError: the API server did not answer or refused the request, the connection broke, or the
            watch ended before all changes since the last watch had arrived.
        :raises RelistError: the watch cannot continue from the last resourceVersion, or the last
            :data:`MAX_SILENT_WATCHES` watches brought neither an event nor a bookmark.
        """
        timing = self._timing
        watch_s = max(1, round(timing.watch_s * (1 - self._random() / 5)))
        version = self._pending.version
        self._pending.reset(version)
        asked_at = self._clock()
        try:
            response = await send_request(
                self._resource.method,
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=watch_s,
                _request_timeout=(timing.answer_s, watch_s + timing.grace_s),
                **self._resource.selectors,
            )
        except APIUnavailableError as error:
            if error.status is not None and not _is_transient(error.status):
                raise RelistError(str(error)) from error
            raise
        try:
            has_lasted = await self._read(response, asked_at=asked_at)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise make_unavailable_error(error) from error
        finally:
            response.close()
            self._batcher.mark_processed()
        if not has_lasted:
            raise APIUnavailableError("the watch ended at once")
        self._silent_watches = self._silent_watches + 1 if version == self._pending.version else 0
        if self._silent_watches >= MAX_SILENT_WATCHES:
            raise RelistError("the API server has nothing to say")

    async def _read(self, response: aiohttp.ClientResponse, *, asked_at: float) -> bool:
        """Read a watch to its end; return whether all changes since the last watch have arrived.

        A bookmark or a pause shows it; see ``settle_s`` of :class:`WatchTiming`.

        :param asked_at: when the watch was requested, in seconds of the watch's clock.
        """
        time = asyncio.get_running_loop().time
        answered_at = time()
        content, lines, pending = response.content, LineSplitter(), self._pending
        is_settled = False
        while True:
            chunk: bytes | None = content.read_nowait()
            if not chunk:
                await pending.apply(self._pacer)
                self._batcher.mark_processed()
                settle_s = self._timing.settle_s
                timeout_s = IDLE_GAP_S if time() - answered_at >= settle_s else settle_s
                chunk = await _read_chunk(content, timeout_s=None if is_settled else timeout_s)
                # Read again after a timeout: bytes may have arrived while other tasks blocked the event loop.
                if chunk is None and not (chunk := content.read_nowait()):
                    if lines.is_empty:
                        is_settled = True
                        self._confirm(asked_at)
                    continue
                self._pacer.reset()
            if not chunk:
                return is_settled
            is_over = False
            for line in lines.feed(chunk):
                is_over = pending.add_line(line) or is_over
                await self._pacer.yield_if_due()
            if not is_settled or self._batcher.is_requested or pending.is_full:
                await pending.apply(self._pacer)
            if is_over and lines.is_empty and not is_settled:
                is_settled = True
                self._confirm(asked_at)
            if is_settled:
                connection, is_all_processed = response.connection, pending.is_empty
                await self._batcher.pause(connection, bytes_read=len(chunk), is_all_processed=is_all_processed)


async def _read_chunk(content: aiohttp.StreamReader, *, timeout_s: float | None) -> bytes | None:
    timeout = asyncio.timeout(timeout_s)
    try:
        async with timeout:
            return await content.readany()
    except TimeoutError:
        if not timeout.expired():
            raise
        return None


def _is_transient(status: int) -> bool:
    refusals = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    return status in refusals or status >= HTTPStatus.INTERNAL_SERVER_ERROR
