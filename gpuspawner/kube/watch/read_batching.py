"""Lets what a connection brings pile up for a moment, unless somebody wants to know.

Taken in one by one, the changes of a pod that starts would wake the hub five times, and that costs more than reading
them does. Where more and more comes and nobody asks, even what was read may wait: of an object that goes on changing,
only the last state has to be understood.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

MAX_UNREAD_BYTES = 192 * 1024
"""What may pile up unread: less than asyncio keeps of a TLS connection that is not read from (256 KiB,
``sslproto.SSLProtocol._set_read_buffer_limits``), so that all of it is at hand when somebody asks."""

MIN_PAUSE_S = 0.005
"""So that a pause can grow again."""

_NOT_PAUSABLE = (AttributeError, NotImplementedError, RuntimeError)
"""What transports raise that are closed already, or that cannot be paused."""

BATCH_FRESH_S = 0.2
"""What came in the last moment is taken in with what follows: servers that are started together ask together."""

_LOOP_TURNS = 3
"""Turns of the event loop from a transport that is read from again to the bytes that it has: one for the transport, one
for TLS, and one to be sure."""


class PausableConnection(Protocol):
    """What is used of ``aiohttp.connector.Connection``."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport, None once it is closed."""


class ReadBatcher:
    """When to read from one connection: what has come is taken in, then comes a pause, and so on.

    :param max_pause_s: longest pause; the more comes, the shorter it is.
    :param fresh_s: seconds in which nobody minds what is not taken in yet.
    """

    def __init__(self, max_pause_s: float, *, fresh_s: float = BATCH_FRESH_S) -> None:
        self._longest_s = max_pause_s
        self._fresh_s = fresh_s
        self._pause_s = max_pause_s
        self._since = 0.0
        self._asked: asyncio.Event | None = None
        self._taken = asyncio.Event()

    @property
    def is_requested(self) -> bool:
        """Tell whether somebody waits for what has piled up."""
        return self._asked is not None and self._asked.is_set()

    async def pause(
        self, connection: PausableConnection | None, *, bytes_read: int, is_all_processed: bool = True
    ) -> None:
        """Leave what comes where it is for a while.

        :param connection: None once everything has come.
        :param bytes_read: came since the last pause.
        :param is_all_processed: nothing waits to be taken in; False only where nobody has asked.
        """
        if is_all_processed:
            self.mark_processed()
            self._since = asyncio.get_running_loop().time()
        wanted_s = self._pause_s * MAX_UNREAD_BYTES / max(1, bytes_read)
        self._pause_s = min(self._longest_s, max(MIN_PAUSE_S, wanted_s))
        transport = connection.transport if connection else None
        if transport is None:
            return
        self._taken.clear()
        self._asked = asyncio.Event()
        with contextlib.suppress(*_NOT_PAUSABLE):
            transport.pause_reading()
        try:
            async with asyncio.timeout(self._pause_s):
                await self._asked.wait()
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(*_NOT_PAUSABLE):
                transport.resume_reading()
        for _ in range(_LOOP_TURNS):
            await asyncio.sleep(0)

    def mark_processed(self) -> None:
        """Note that everything that has piled up was taken in."""
        self._asked = None
        self._taken.set()

    async def catch_up(self) -> None:
        """End a pause, and wait until what has piled up is taken in, unless that has only begun."""
        age_s = asyncio.get_running_loop().time() - self._since
        if self._asked is not None and age_s >= self._fresh_s:
            self._asked.set()
            await self._taken.wait()
