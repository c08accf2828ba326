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

from gpuspawner.kube.client.lines import Lines
from gpuspawner.kube.client.listing import list_each
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.client.requests import APIUnavailableError, ListMethod, send, unavailable
from gpuspawner.kube.watch.changes import Changes, RelistError
from gpuspawner.kube.watch.collection import COLLECTOR
from gpuspawner.kube.watch.gathering import Gathering
from gpuspawner.kube.watch.reconcile import Reconciliation
from gpuspawner.kube.watch.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a watch waits for what, in seconds.

    :param answer_s: for a connection, and then for each piece of a list.
    :param watch_s: after which the API server is asked to end each watch; two seconds before it does, it sends a
        bookmark (``cacher/cache_watcher.go``, ``nextBookmarkTime``). Asking for the next one is what confirms, so this
        is also the age that data reaches while all goes well. And it bounds how long a connection that died in silence
        is taken for an idle one.
    :param grace_s: silence beyond ``watch_s`` after which a connection is given up.
    :param settle_s: after the answer to a watch until what was missed in between is taken to have arrived.
    :param gather_s: longest time that nothing is read, unless somebody asks. What was read is taken in when somebody
        asks, when nothing more comes, and when it becomes much.
    """

    answer_s: float = 10.0
    watch_s: float = 10.0
    grace_s: float = 2.0
    settle_s: float = 0.5
    gather_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What is followed.

    :param page_size: objects in a page of the list.
    :param selectors: ``field_selector``, for list and watch.
    """

    method: ListMethod
    page_size: int
    selectors: Mapping[str, str] = field(default_factory=dict)


GAP_S = 0.005
"""Seconds without an event that tell what changes now from what was missed: the API server sends that faster, and a
cluster that never has such a gap is confirmed by bookmarks."""

SILENT_WATCHES = 6
"""Watches in a row that end without an event or a bookmark, after which the list is read again: an API server whose
data was set back to an older state waits in silence for the versions that the watch has seen already."""


class Watch:
    """One resource, as far as it is known: :meth:`relist` first, then :meth:`stream` again and again.

    :param confirm: called with the moment as of which everything the target holds is confirmed.
    :param clock: steady seconds; :param random: numbers from 0 up to 1.
    """

    def __init__(
        self,
        resource: Resource,
        target: Target[Any],
        *,
        confirm: Callable[[float], None],
        timing: Timing,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._resource = resource
        self._target = target
        self._confirm = confirm
        self._timing = timing
        self._clock = clock
        self._random = random
        self._pacer = Pacer()
        self._changes = Changes(target)
        self._gathering = Gathering(timing.gather_s)
        self._silent_watches = 0

    @property
    def needs_list(self) -> bool:
        """Tell whether there is no state (any more) that a watch could go on from."""
        return not self._changes.version

    def forget(self) -> None:
        """Begin with a list next time."""
        self._changes.begin("")
        self._silent_watches = 0

    async def relist(self) -> None:
        """Bring the target to the state of a new list, see :mod:`gpuspawner.kube.watch.reconcile`.

        :raises APIUnavailableError: the list could not be read to its end. Nothing was dropped then.
        """
        asked_at = self._clock()
        reconciliation = Reconciliation(self._target, pacer=self._pacer)
        timing, resource = self._timing, self._resource
        with COLLECTOR.spared():
            await reconciliation.begin()
            version = await list_each(
                resource.method,
                reconciliation.keep,
                pacer=self._pacer,
                limit=resource.page_size,
                _request_timeout=(timing.answer_s, timing.answer_s),
                **resource.selectors,
            )
            await reconciliation.finish()
        COLLECTOR.settle(len(self._target.held()))
        self._changes.begin(version)
        self._confirm(asked_at)

    async def clear(self) -> None:
        """Forget everything the target holds: the hub may not know it any more."""
        self.forget()
        for value in self._target.held():
            self._target.drop(self._target.key(value))
            await self._pacer.turn()

    async def catch_up(self) -> None:
        """Have in the target what has arrived; whoever asks calls this first."""
        await self._gathering.catch_up()

    async def stream(self) -> None:
        """Take changes in, from the last one known on, until the API server ends the watch.

        :raises APIUnavailableError: the API server did not answer, refused, or the connection broke.
        :raises RelistError: there is no way on from the last change known.
        """
        timing = self._timing
        watch_s = max(1, round(timing.watch_s * (1 - self._random() / 5)))
        version = self._changes.version
        self._changes.begin(version)
        asked_at = self._clock()
        try:
            response = await send(
                self._resource.method,
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=watch_s,
                _request_timeout=(timing.answer_s, watch_s + timing.grace_s),
                **self._resource.selectors,
            )
        except APIUnavailableError as error:
            if error.status is not None and not _is_passing(error.status):
                raise RelistError(str(error)) from error
            raise
        try:
            has_lasted = await self._read(response, asked_at=asked_at)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise unavailable(error) from error
        finally:
            response.close()
            self._gathering.end()
        if not has_lasted:
            raise APIUnavailableError("the watch ended at once")
        self._silent_watches = self._silent_watches + 1 if version == self._changes.version else 0
        if self._silent_watches >= SILENT_WATCHES:
            raise RelistError("the API server has nothing to say")

    async def _read(self, response: aiohttp.ClientResponse, *, asked_at: float) -> bool:
        """Read a watch to its end; tell whether it lasted.

        What confirms is the way there and back: whatever had changed when the watch was asked for has arrived once its
        first rush is over, which has no gaps, or with a bookmark, which stands behind everything before it. An event
        alone confirms nothing, as nobody knows how long it was on its way.
        """
        time = asyncio.get_running_loop().time
        answered_at = time()
        content, lines, changes = response.content, Lines(), self._changes
        is_settled = False
        while True:
            chunk: bytes | None = content.read_nowait()
            if not chunk:
                await changes.apply(self._pacer)
                self._gathering.end()
                settle_s = self._timing.settle_s
                patience_s = GAP_S if time() - answered_at >= settle_s else settle_s
                chunk = await _next(content, patience_s=None if is_settled else patience_s)
                # What came while others held the event loop was no gap.
                if chunk is None and not (chunk := content.read_nowait()):
                    if lines.is_empty:
                        is_settled = True
                        self._confirm(asked_at)
                    continue
                self._pacer.begin()
            if not chunk:
                return is_settled
            is_over = False
            for line in lines.feed(chunk):
                is_over = changes.take(line) or is_over
                await self._pacer.turn()
            if not is_settled or self._gathering.is_asked or changes.are_many:
                await changes.apply(self._pacer)
            if is_over and lines.is_empty and not is_settled:
                is_settled = True
                self._confirm(asked_at)
            if is_settled:
                connection, is_all_taken = response.connection, changes.are_none
                await self._gathering.pause(connection, after_bytes=len(chunk), is_all_taken=is_all_taken)


async def _next(content: aiohttp.StreamReader, *, patience_s: float | None) -> bytes | None:
    """Return what comes next, empty at the end; None where nothing came for so long."""
    patience = asyncio.timeout(patience_s)
    try:
        async with patience:
            return await content.readany()
    except TimeoutError:
        if not patience.expired():
            raise
        return None


def _is_passing(status: int) -> bool:
    """Tell whether the same request may be answered another time: refusals of who asks, and troubles of the server."""
    refusals = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    return status in refusals or status >= HTTPStatus.INTERNAL_SERVER_ERROR
