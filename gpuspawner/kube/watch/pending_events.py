"""Reads the events of a watch in batches, and puts the events, and new lists, into a cache.

A pod changes about five times while it starts, and each event has about 10 KB. :class:`PendingEvents` therefore decodes
only the last event of each object. :class:`ReadBatcher` pauses reading, so that the event loop does not wake for each
event; :meth:`ReadBatcher.catch_up` ends the pause when the hub needs the data.

After an interruption of the watch, the hub lists the resource again. :class:`ListReconciler` waits for the last page of
the list before it changes the cache. Otherwise, the cache would contain new pods together with deleted pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from gpuspawner.kube.client.json_stream import strip_managed_fields
from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.object_caches import ObjectCache, ObjectKey, decode_object, find_object_key

_T = TypeVar("_T")

MAX_CHANGES_AT_ONCE = 1000
"""Maximum number of changes that :meth:`ListReconciler.finish` applies without yielding to the event loop; they take
about 10 ms."""


class ListReconciler(Generic[_T]):
    """Applies one complete list to a cache: call :meth:`begin`, :meth:`record` for each object, then :meth:`finish`.

    From the call of :meth:`begin` until :meth:`finish` returns, no other code may change the cache.

    :param cache: receives the objects.
    :param pacer: yields to the event loop.
    """

    def __init__(self, cache: ObjectCache[_T], *, pacer: Pacer) -> None:
        self._cache = cache
        self._pacer = pacer
        self._unseen: dict[ObjectKey, _T] = {}
        self._is_first = True
        self._changed: list[_T] = []

    async def begin(self) -> None:
        """Note which objects are in the cache, so that :meth:`finish` can drop those that the list does not contain."""
        for value in self._cache.list_values():
            self._unseen[self._cache.make_key(value)] = value
            await self._pacer.yield_if_due()
        # If the cache is empty, record() puts objects into it directly, which avoids holding every object twice.
        self._is_first = not self._unseen

    def record(self, raw: object) -> None:
        """If an object of the list is new or has changed, keep it until :meth:`finish` puts it into the cache.

        If the cache was empty at :meth:`begin`, put the object into the cache at once.

        :param raw: JSON object.
        """
        found = decode_object(raw, self._cache)
        if found is None:
            return
        key, value = found
        if value is None:
            return
        if self._is_first:
            self._cache.put(value)
        elif self._unseen.pop(key, None) != value:
            self._changed.append(value)

    async def finish(self) -> None:
        """Put the changed objects into the cache, and drop the objects that the list did not contain."""
        gone: list[ObjectKey] = list(self._unseen)
        in_slices = len(gone) + len(self._changed) > MAX_CHANGES_AT_ONCE
        for key in gone:
            self._cache.drop(key)
            if in_slices:
                await self._pacer.yield_if_due()
        for value in self._changed:
            self._cache.put(value)
            if in_slices:
                await self._pacer.yield_if_due()


_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")
_EVENT_START = re.compile(
    rb'\{"type":"(?P<kind>ADDED|MODIFIED|DELETED)","object":\{"kind":"\w+","apiVersion":"v1","metadata":\{'
    rb'"name":"(?P<name>[-.a-z0-9]+)"(?:,"generateName":"[-.a-z0-9]*")?(?:,"namespace":"(?P<namespace>[-a-z0-9]+)")?'
    rb',"uid":"[-\w]+","resourceVersion":"(?P<version>\d+)"'
)
"""Matches the start of a watch event as the API server usually writes it: the event's type, and the object's name,
namespace and ``resourceVersion``. To find these values in any other event, the hub parses the event's whole JSON."""


MAX_PENDING_BYTES = 512 * 1024
"""When all pending events together have at least this many bytes, the hub applies them even if no form needs the data.
The events of about 50 pods have this size; applying them takes a few milliseconds."""


class RelistError(Exception):
    """The watch cannot continue from its last version; the hub must list the resource again."""


class PendingEvents:
    """Keeps the last event of each changed object until :meth:`apply` puts the object into the cache.

    :param cache: receives the objects.
    :ivar version: ``resourceVersion`` up to which the cache is complete; empty if unknown.
    """

    def __init__(self, cache: ObjectCache[Any]) -> None:
        self.version = ""
        self._cache = cache
        self._last: dict[ObjectKey, tuple[str, bytes]] = {}
        """Key of an object → ``resourceVersion`` and line of its last event, in order of arrival. The line of a
        deletion is empty."""
        self._bytes = 0
        self._bookmark = ""

    @property
    def is_empty(self) -> bool:
        """Whether every event has been applied to the cache."""
        return not self._last

    @property
    def is_full(self) -> bool:
        """Whether the pending events are so large that they should be applied now."""
        return self._bytes >= MAX_PENDING_BYTES

    def reset(self, version: str) -> None:
        """Drop all pending events.

        :param version: ``resourceVersion`` from which the watch continues; empty to require a new list.
        """
        self.version = version
        self._last.clear()
        self._bytes = 0
        self._bookmark = ""

    def add_line(self, line: bytes) -> bool:
        """Record one line of a watch and return whether it is a bookmark.

        :param line: JSON of an event, UTF-8.
        :raises RelistError: the API server sent an error event, or the line is not JSON.
        """
        if match := _EVENT_START.match(line):
            matched = ((match["namespace"] or b"").decode(), match["name"].decode())
            self._note(matched, b"" if match["kind"] == b"DELETED" else line, version=match["version"].decode())
            return False
        event = _parse_event(line)
        kind = event.get("type")
        if kind == "ERROR":
            # The error is mostly 410 Gone, because the resourceVersion is too old. List the resource again after other
            # errors, too: the API does not say whether the watch could continue.
            raise RelistError("the API server ended the watch with an error")
        if kind == "BOOKMARK":
            self._bookmark = _read_version(event) or self._bookmark
            return True
        # Skip events of unknown types: they change neither the cache nor the version from which the watch continues.
        if kind in _EVENT_TYPES and (key := find_object_key(event.get("object"))):
            self._note(key, b"" if kind == "DELETED" else line, version=_read_version(event))
        return False

    async def apply(self, pacer: Pacer) -> None:
        """Decode all pending events and update the cache.

        :param pacer: yields to the event loop between objects.
        :raises RelistError: a line is not JSON.
        """
        for key, (version, line) in self._last.items():
            self._apply_line(key, line)
            self.version = version or self.version
            await pacer.yield_if_due()
        self.reset(self._bookmark or self.version)

    def _note(self, key: ObjectKey, line: bytes, *, version: str) -> None:
        _, previous = self._last.pop(key, ("", b""))
        self._bytes += len(line) - len(previous)
        self._last[key] = (version, line)
        # Drop the last bookmark's resourceVersion: this event arrived later, so its version is newer.
        self._bookmark = ""

    def _apply_line(self, key: ObjectKey, line: bytes) -> None:
        found = decode_object(_parse_event(line).get("object"), self._cache) if line else None
        if found is None or found[1] is None:
            self._cache.drop(key)
        else:
            self._cache.put(found[1])


def _parse_event(line: bytes) -> Mapping[str, object]:
    try:
        event = json.loads(strip_managed_fields(line))
    except (ValueError, RecursionError) as error:
        raise RelistError("an event is no JSON") from error
    return event if isinstance(event, dict) else {}


def _read_version(event: Mapping[str, object]) -> str:
    raw = event.get("object")
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


MAX_UNREAD_BYTES = 192 * 1024
"""Maximum number of bytes that should arrive during a pause; if more arrive, the next pause is shorter. asyncio stops
reading from a TLS connection once 256 KiB are unread (``sslproto.SSLProtocol._set_read_buffer_limits``)."""

MIN_PAUSE_S = 0.005
"""Shortest pause in seconds. The length of each pause is computed as a multiple of the previous pause, so after a pause
of zero, all later pauses would be zero."""

_NOT_PAUSABLE = (AttributeError, NotImplementedError, RuntimeError)
"""Exceptions that transports raise if they are closed or cannot pause reading."""

BATCH_FRESH_S = 0.2
"""Default of ``fresh_s`` in :class:`ReadBatcher`. When several servers start at about the same time, the hub thus reads
new events only once for all of them."""

_LOOP_TURNS = 3
"""Iterations of the event loop until the bytes that arrived during a pause have been read: one for the transport, one
for TLS, one in reserve."""


class PausableConnection(Protocol):
    """The part of ``aiohttp.connector.Connection`` that this module uses."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection's transport, or None once the connection is closed."""


class ReadBatcher:
    """Pauses reading from one watch connection, so that events arrive in batches; a caller can end a pause.

    :param max_pause_s: longest pause in seconds. If many bytes arrive during a pause, the next pause is shorter.
    :param fresh_s: :meth:`catch_up` returns at once if the cache was up to date less than this many seconds ago.
    """

    def __init__(self, max_pause_s: float, *, fresh_s: float = BATCH_FRESH_S) -> None:
        self._max_pause_s = max_pause_s
        self._fresh_s = fresh_s
        self._pause_s = max_pause_s
        self._since = -math.inf
        self._requested: asyncio.Event | None = None
        self._processed = asyncio.Event()

    @property
    def is_requested(self) -> bool:
        """Whether a caller of :meth:`catch_up` waits for the unread events."""
        return self._requested is not None and self._requested.is_set()

    async def pause(
        self, connection: PausableConnection | None, *, bytes_read: int, is_all_processed: bool = True
    ) -> None:
        """Stop reading for a while; a call of :meth:`catch_up` ends the pause early.

        :param connection: connection of the watch; None once the response is complete.
        :param bytes_read: number of bytes read since the last pause.
        :param is_all_processed: whether every event read so far is in the cache.
        """
        if is_all_processed:
            self.mark_processed()
            self._since = asyncio.get_running_loop().time()
        balanced_s = self._pause_s * MAX_UNREAD_BYTES / max(1, bytes_read)
        self._pause_s = min(self._max_pause_s, max(MIN_PAUSE_S, balanced_s))
        transport = connection.transport if connection else None
        if transport is None:
            return
        self._processed.clear()
        self._requested = asyncio.Event()
        with contextlib.suppress(*_NOT_PAUSABLE):
            transport.pause_reading()
        try:
            async with asyncio.timeout(self._pause_s):
                await self._requested.wait()
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(*_NOT_PAUSABLE):
                transport.resume_reading()
        for _ in range(_LOOP_TURNS):
            await asyncio.sleep(0)

    def mark_processed(self) -> None:
        """Wake the callers of :meth:`catch_up`, because every event read so far is in the cache."""
        self._requested = None
        self._processed.set()

    async def catch_up(self) -> None:
        """End the pause, and wait until the cache has all unread events.

        Return at once if the cache was up to date less than ``fresh_s`` seconds ago, or if there is no pause to end.
        """
        age_s = asyncio.get_running_loop().time() - self._since
        if self._requested is not None and age_s >= self._fresh_s:
            self._requested.set()
            await self._processed.wait()
