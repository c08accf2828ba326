"""Follows one resource: a list, and then whatever changes, from one request to the next.

How a watch works: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp

from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, make_unavailable_error, send_request
from gpuspawner.kube.client.json_stream import LineSplitter
from gpuspawner.kube.client.listing import list_each
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.gc_tuning import GC_TUNING
from gpuspawner.kube.watch.list_reconciler import ListReconciler
from gpuspawner.kube.watch.object_caches import ObjectCache
from gpuspawner.kube.watch.pending_events import PendingEvents, RelistError
from gpuspawner.kube.watch.read_batching import ReadBatcher


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTiming:
    """How long a watch waits for what, in seconds.

    :param answer_s: for a connection, and then for each piece of a list.
    :param watch_s: after which the API server is asked to end each watch; two seconds before it does, it sends a
        bookmark (``cacher/cache_watcher.go``, ``nextBookmarkTime``). Asking for the next one is what confirms, so this
        is also the age that data reaches while all goes well. And it bounds how long a connection that died in silence
        is taken for an idle one.
    :param grace_s: silence beyond ``watch_s`` after which a connection is given up.
    :param settle_s: after the answer to a watch until what was missed in between is taken to have arrived.
    :param batch_s: longest time that nothing is read, unless somebody asks. What was read is taken in when somebody
        asks, when nothing more comes, and when it becomes much.
    """

    answer_s: float = 10.0
    watch_s: float = 10.0
    grace_s: float = 2.0
    settle_s: float = 0.5
    batch_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedResource:
    """What is followed.

    :param page_size: objects in a page of the list.
    :param selectors: ``field_selector``, for list and watch.
    """

    method: APIMethod
    page_size: int
    selectors: Mapping[str, str] = field(default_factory=dict)


IDLE_GAP_S = 0.005
"""Seconds without an event that tell what changes now from what was missed: the API server sends that faster, and a
cluster that never has such a gap is confirmed by bookmarks."""

MAX_SILENT_WATCHES = 6
"""Watches in a row that end without an event or a bookmark, after which the list is read again: an API server whose
data was set back to an older state waits in silence for the versions that the watch has seen already."""


class Watch:
    """One resource, as far as it is known: :meth:`relist` first, then :meth:`stream` again and again.

    :param confirm: called with the moment as of which everything the target holds is confirmed.
    :param clock: steady seconds; :param random: numbers from 0 up to 1.
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
        self._changes = PendingEvents(cache)
        self._batcher = ReadBatcher(timing.batch_s)
        self._silent_watches = 0

    @property
    def needs_list(self) -> bool:
        """Tell whether there is no state (any more) that a watch could go on from."""
        return not self._changes.version

    def forget(self) -> None:
        """Begin with a list next time."""
        self._changes.reset("")
        self._silent_watches = 0

    async def relist(self) -> None:
        """Bring the target to the state of a new list, see :mod:`gpuspawner.kube.watch.list_reconciler`.

        :raises APIUnavailableError: the list could not be read to its end. Nothing was dropped then.
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
        self._changes.reset(version)
        self._confirm(asked_at)

    async def clear(self) -> None:
        """Forget everything the target holds: the hub may not know it any more."""
        self.forget()
        for value in self._cache.list_values():
            self._cache.drop(self._cache.make_key(value))
            await self._pacer.yield_if_due()

    async def catch_up(self) -> None:
        """Have in the target what has arrived; whoever asks calls this first."""
        await self._batcher.catch_up()

    async def stream(self) -> None:
        """Take changes in, from the last one known on, until the API server ends the watch.

        :raises APIUnavailableError: the API server did not answer, refused, or the connection broke.
        :raises RelistError: there is no way on from the last change known.
        """
        timing = self._timing
        watch_s = max(1, round(timing.watch_s * (1 - self._random() / 5)))
        version = self._changes.version
        self._changes.reset(version)
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
        self._silent_watches = self._silent_watches + 1 if version == self._changes.version else 0
        if self._silent_watches >= MAX_SILENT_WATCHES:
            raise RelistError("the API server has nothing to say")

    async def _read(self, response: aiohttp.ClientResponse, *, asked_at: float) -> bool:
        """Read a watch to its end; tell whether it lasted.

        What confirms is the way there and back: whatever had changed when the watch was asked for has arrived once its
        first rush is over, which has no gaps, or with a bookmark, which stands behind everything before it. An event
        alone confirms nothing, as nobody knows how long it was on its way.
        """
        time = asyncio.get_running_loop().time
        answered_at = time()
        content, lines, changes = response.content, LineSplitter(), self._changes
        is_settled = False
        while True:
            chunk: bytes | None = content.read_nowait()
            if not chunk:
                await changes.apply(self._pacer)
                self._batcher.mark_processed()
                settle_s = self._timing.settle_s
                patience_s = IDLE_GAP_S if time() - answered_at >= settle_s else settle_s
                chunk = await _read_chunk(content, patience_s=None if is_settled else patience_s)
                # What came while others held the event loop was no gap.
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
                is_over = changes.add_line(line) or is_over
                await self._pacer.yield_if_due()
            if not is_settled or self._batcher.is_requested or changes.is_full:
                await changes.apply(self._pacer)
            if is_over and lines.is_empty and not is_settled:
                is_settled = True
                self._confirm(asked_at)
            if is_settled:
                connection, is_all_taken = response.connection, changes.is_empty
                await self._batcher.pause(connection, bytes_read=len(chunk), is_all_processed=is_all_taken)


async def _read_chunk(content: aiohttp.StreamReader, *, patience_s: float | None) -> bytes | None:
    """Return what comes next, empty at the end; None where nothing came for so long."""
    patience = asyncio.timeout(patience_s)
    try:
        async with patience:
            return await content.readany()
    except TimeoutError:
        if not patience.expired():
            raise
        return None


def _is_transient(status: int) -> bool:
    """Tell whether the same request may be answered another time: refusals of who asks, and troubles of the server."""
    refusals = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    return status in refusals or status >= HTTPStatus.INTERNAL_SERVER_ERROR
