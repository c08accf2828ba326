"""Lists one resource, then watches it with one request after the other.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import random as random_numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp

from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.kube.client.api_requests import (
    MAX_BODY_BYTES,
    APIMethod,
    APIUnavailableError,
    list_each,
    make_unavailable_error,
    parse_json,
    send_request,
)
from gpuspawner.kube.client.pacing import take_turns
from gpuspawner.kube.watch.object_caches import (
    ObjectCache,
    ObjectKey,
    decode_object,
    find_object_key,
    replace_objects,
)

MAX_LINE_BYTES = MAX_BODY_BYTES
"""Maximum size of an unfinished line of a watch."""


class LineTooLongError(Exception):
    """A line exceeds the allowed length, so the response is not a watch of Kubernetes objects."""


class RelistError(Exception):
    """The watch cannot continue from its last version; the hub must list the resource again."""


class LineSplitter:
    """Splits a byte stream into lines; a last line without a newline at its end is never yielded."""

    def __init__(self, *, longest_bytes: int = MAX_LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._rest = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether no unfinished line waits for the next chunk: the last chunk ended with a newline."""
        return not self._rest

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the non-empty lines that end in this chunk.

        :raises LineTooLongError: the unfinished line has too many bytes.
        """
        self._rest += chunk
        lines: list[bytes] = []
        if b"\n" in chunk:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
        if len(self._rest) > self._longest_bytes:
            raise LineTooLongError(f"more than {self._longest_bytes} bytes")
        return [line for line in lines if line.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTiming:
    """Timeouts and intervals of a watch, in seconds.

    :param answer_s: timeout for a connection, and for each piece of a list's response.
    :param watch_s: longest duration of a watch request. The API server sends a bookmark two seconds before the request
        ends (``cacher/cache_watcher.go``, ``nextBookmarkTime``).
    :param grace_s: the hub gives up a connection that is silent for ``watch_s`` + ``grace_s``.
    :param settle_s: how long the API server may need for the first changes after the response's headers. If nothing
        arrives for this long, the hub assumes that nothing has changed since the last watch.
    :param batch_s: pause after each batch of events, so that the hub does not wake for each event. The cache is at most
        this much older than the connection.
    """

    answer_s: float = 10.0
    watch_s: float = 10.0
    grace_s: float = 2.0
    settle_s: float = 0.5
    batch_s: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedResource:
    """A Kubernetes resource to list and watch.

    :param method: list method of a ``kubernetes_asyncio`` API class.
    :param page_size: maximum number of objects on a page of the list.
    :param selectors: ``field_selector`` or ``label_selector`` of the list and watch requests.
    """

    method: APIMethod
    page_size: int
    selectors: Mapping[str, str] = field(default_factory=dict)


IDLE_GAP_S = 0.005
"""Pause between events, in seconds, that shows that a new watch has delivered all changes since the last watch: the API
server sends these changes one directly after the other."""

MAX_BATCH_BYTES = 64 * 1024
"""The hub pauses only after batches of fewer bytes. aiohttp stops reading from a connection once twice as many bytes
are unread (``read_bufsize`` of ``aiohttp.ClientSession``)."""

MAX_SILENT_WATCHES = 6
"""Number of watches in a row without an event or a bookmark after which the hub lists the resource again.

For example, after etcd is restored from a backup, the API server sends nothing until its resourceVersions exceed the
one that the watch names."""


class Watch:
    """Lists and watches one resource; the caller awaits :meth:`relist` first, then :meth:`stream` repeatedly.

    :param cache: receives the decoded objects.
    :param confirm: called when the cache is complete, with the time of the request, in seconds of ``clock``.
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
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        self._resource = resource
        self._cache = cache
        self._confirm = confirm
        self._timing = timing
        self._clock = clock
        self._random = random
        self._version = ""
        """``resourceVersion`` up to which the cache is complete; empty if unknown."""
        self._silent_watches = 0

    @property
    def needs_list(self) -> bool:
        """Whether :meth:`relist` must run before :meth:`stream`."""
        return not self._version

    def forget(self) -> None:
        """Forget the resourceVersion to watch from; the caller must :meth:`relist` before the next :meth:`stream`."""
        self._version = ""
        self._silent_watches = 0

    async def relist(self) -> None:
        """List the resource and apply the list to the cache.

        :raises APIUnavailableError: the list could not be read completely; the cache keeps its objects.
        """
        asked_at = self._clock()
        timing, resource = self._timing, self._resource
        listed: dict[ObjectKey, Any] = {}

        def keep(raw: object) -> None:
            key, value = decode_object(raw, self._cache) or (None, None)
            if key is not None and value is not None:
                listed[key] = value

        version = await list_each(
            resource.method,
            keep,
            limit=resource.page_size,
            _request_timeout=(timing.answer_s, timing.answer_s),
            **resource.selectors,
        )
        # Change the cache only now: with a page of a new list, it would contain new pods together with deleted pods.
        await replace_objects(self._cache, listed)
        self._version = version
        self._confirm(asked_at)

    async def clear(self) -> None:
        """Drop all objects of the cache, because the hub lost the right to read them."""
        self.forget()
        await replace_objects(self._cache, {})

    async def stream(self) -> None:
        """Send one watch request and apply its events to the cache until the API server ends it.

        :raises APIUnavailableError: the API server did not answer or refused the request, the connection broke, or the
            watch ended before all changes since the last watch had arrived.
        :raises RelistError: the watch cannot continue from the last resourceVersion, or the last
            :data:`MAX_SILENT_WATCHES` watches brought neither an event nor a bookmark.
        """
        timing = self._timing
        watch_s = max(1, round(timing.watch_s * (1 - self._random() / 5)))
        version = self._version
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
        if not has_lasted:
            raise APIUnavailableError("the watch ended at once")
        self._silent_watches = self._silent_watches + 1 if version == self._version else 0
        if self._silent_watches >= MAX_SILENT_WATCHES:
            raise RelistError("the API server has nothing to say")

    async def _read(self, response: aiohttp.ClientResponse, *, asked_at: float) -> bool:
        """Read a watch to its end; return whether all changes since the last watch have arrived.

        A bookmark or a pause shows it; see ``settle_s`` of :class:`WatchTiming`.

        :param asked_at: when the watch was requested, in seconds of the watch's clock.
        """
        time = asyncio.get_running_loop().time
        answered_at = time()
        content, lines = response.content, LineSplitter()
        is_settled = False
        while True:
            chunk: bytes | None = content.read_nowait()
            if not chunk:
                settle_s = self._timing.settle_s
                timeout_s = IDLE_GAP_S if time() - answered_at >= settle_s else settle_s
                chunk = await _read_chunk(content, timeout_s=None if is_settled else timeout_s)
                # Read again after a timeout: bytes may have arrived while other tasks blocked the event loop.
                if chunk is None and not (chunk := content.read_nowait()):
                    if lines.is_empty:
                        is_settled = True
                        self._confirm(asked_at)
                    continue
            if not chunk:
                return is_settled
            is_over = False
            async for line in take_turns(lines.feed(chunk)):
                is_over = self._apply(line) or is_over
            if is_over and lines.is_empty and not is_settled:
                is_settled = True
                self._confirm(asked_at)
            # If much has arrived, the connection may have been paused, and more waits to be read.
            if is_settled and len(chunk) < MAX_BATCH_BYTES:
                await asyncio.sleep(self._timing.batch_s)

    def _apply(self, line: bytes) -> bool:
        """Apply one line of a watch to the cache, and return whether the line is a bookmark.

        :raises RelistError: the API server sent an error event, or the line is not JSON.
        """
        try:
            event = as_dict(parse_json(line))
        except ValueError as error:
            raise RelistError("an event is no JSON") from error
        kind, raw = event.get("type"), event.get("object")
        if kind == "ERROR":
            # The error is mostly 410 Gone, because the resourceVersion is too old. List the resource again after other
            # errors, too: the API does not say whether the watch could continue.
            raise RelistError("the API server ended the watch with an error")
        key = find_object_key(raw)
        if key is not None and kind == "DELETED":
            self._cache.drop(key)
        elif key is not None and kind in ("ADDED", "MODIFIED"):
            _, value = decode_object(raw, self._cache) or (key, None)
            if value is None:
                self._cache.drop(key)
            else:
                self._cache.put(value)
        elif kind != "BOOKMARK":
            # Skip events of unknown types: they change neither the cache nor the version to continue from.
            return False
        self._version = as_text(as_dict(as_dict(raw).get("metadata")).get("resourceVersion")) or self._version
        return kind == "BOOKMARK"


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
