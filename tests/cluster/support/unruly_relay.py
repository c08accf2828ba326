"""A way to the API server on which a test lets happen what happens on networks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK = 65536
CUT_AFTER_S = 1.0


class UnrulyRelay:
    """Passes connections on to an API server, as well or badly as its attributes say.

    It listens on the API server's own address, so that the server's certificate stays right.

    :ivar refuses: new connections are closed at once.
    :ivar latency_s: seconds that everything the API server says is late.
    :ivar cuts_every: each so manieth connection is broken off after a second; 0: none.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pumps: set[asyncio.Task[None]] = set()
        self._mute: set[asyncio.Task[None]] = set()
        self._count = 0
        self.port = 0
        self.refuses = False
        self.latency_s = 0.0
        self.cuts_every = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[UnrulyRelay]:
        server = await asyncio.start_server(self._accept, self._target[0], 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        """Break all connections off."""
        for pump in self._pumps:
            pump.cancel()

    def mute(self) -> None:
        """Let nothing through on the connections there are, and keep them: a router that forgot them does that."""
        self._mute |= self._pumps

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        is_cut = self.cuts_every and self._count % self.cuts_every == 0
        pump = asyncio.current_task()
        assert pump is not None
        self._pumps.add(pump)
        with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
            if not self.refuses:
                async with asyncio.timeout(CUT_AFTER_S if is_cut else None):
                    await self._connect(reader, writer, pump)
        writer.transport.abort()
        self._pumps.discard(pump)
        self._mute.discard(pump)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pump: asyncio.Task[None]
    ) -> None:
        from_server, to_server = await asyncio.open_connection(*self._target)
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        parts = [
            asyncio.create_task(self._forward(reader, to_server, pump)),
            asyncio.create_task(self._receive(from_server, late)),
            asyncio.create_task(self._deliver(late, writer, pump)),
        ]
        try:
            # One side has ended: so does the other, but what is on its way still arrives.
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if parts[1].done():
                await parts[2]
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            to_server.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pump: asyncio.Task[None]
    ) -> None:
        while data := await reader.read(CHUNK):
            if pump not in self._mute:
                writer.write(data)
                await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        data = b"x"
        while data:
            data = await reader.read(CHUNK)
            late.put_nowait((asyncio.get_running_loop().time() + self.latency_s, data))

    async def _deliver(
        self, late: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, pump: asyncio.Task[None]
    ) -> None:
        while True:
            due, data = await late.get()
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            if not data:
                return
            if pump not in self._mute:
                writer.write(data)
                await writer.drain()
