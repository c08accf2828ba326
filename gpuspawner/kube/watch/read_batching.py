"""Pauses reading from a watch connection so that the hub processes events in batches.

Without pauses, a starting pod would wake the event loop five times, which costs more than parsing its events. During a
pause the events stay unread in the connection; :meth:`ReadBatcher.catch_up` ends the pause when the hub needs the data.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Protocol

MAX_UNREAD_BYTES = 192 * 1024
"""Number of bytes that should arrive at most in one pause; if more arrive, the next pause is shorter. asyncio stops
reading from a TLS connection once 256 KiB are unread (``sslproto.SSLProtocol._set_read_buffer_limits``). As long as
fewer bytes are unread, all events that the API server has sent are in memory when a pause ends."""

MIN_PAUSE_S = 0.005
"""Shortest pause in seconds. Each pause is a multiple of the last one, so after a pause of zero all pauses would be
zero."""

_NOT_PAUSABLE = (AttributeError, NotImplementedError, RuntimeError)
"""Exceptions that transports raise if they are closed or cannot pause reading."""

BATCH_FRESH_S = 0.2
"""If every event was in the cache less than this many seconds ago, :meth:`ReadBatcher.catch_up` returns at once.
Servers that start at the same moment thus use the same state of the cache."""

_LOOP_TURNS = 3
"""Iterations of the event loop from ``resume_reading()`` until the transport has delivered the bytes that arrived
during the pause: one for the transport, one for TLS, one in reserve."""


class PausableConnection(Protocol):
    """The part of ``aiohttp.connector.Connection`` that this module uses."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection's transport, or None once the connection is closed."""


class ReadBatcher:
    """Pauses reading from one watch connection, so that events arrive in batches; a caller can end a pause.

    :param max_pause_s: longest pause in seconds; the more bytes arrive, the shorter the next pause is.
    :param fresh_s: age of the cache in seconds below which :meth:`catch_up` returns at once.
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
        """Stop reading for a while, or until :meth:`catch_up` needs the data.

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
        """If the cache is at least ``fresh_s`` old, end the pause and wait until the cache has all unread events.

        If the cache is younger, or no pause has begun since the last events were processed, return at once.
        """
        age_s = asyncio.get_running_loop().time() - self._since
        if self._requested is not None and age_s >= self._fresh_s:
            self._requested.set()
            await self._processed.wait()
