"""Data of a real connection piles up during a pause, and is at hand as soon as a request asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.kube.watch.pending_events import MAX_UNREAD_BYTES, ReadBatcher
from tests.unit.kube.watch_server import eventually

LONG_S = 60.0


class Line:
    """Both ends of a connection."""

    def __init__(self, near: tuple[Any, Any], far: tuple[Any, Any]) -> None:
        self.reader, writer = near
        self.connection = SimpleNamespace(transport=writer.transport)
        self.far = far[1]

    async def send(self, piece: bytes) -> None:
        self.far.write(piece)
        await self.far.drain()


@pytest.fixture
async def connected() -> AsyncIterator[Line]:
    accepted: asyncio.Future[tuple[Any, Any]] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *far: accepted.set_result(far), "127.0.0.1")
    near = await asyncio.open_connection(*server.sockets[0].getsockname())
    line = Line(near, await accepted)
    yield line
    for _, writer in (near, await accepted):
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def paused(gathering: ReadBatcher, line: Line, *, after_bytes: int = 1) -> asyncio.Task[None]:
    """Begin a pause."""
    pause = asyncio.create_task(gathering.pause(line.connection, bytes_read=after_bytes))
    await eventually(lambda: not line.connection.transport.is_reading() or pause.done())
    return pause


async def seconds(done: Awaitable[object]) -> float:
    began = time.monotonic()
    await done
    return time.monotonic() - began


async def test_a_question_ends_a_pause_with_everything_at_hand(connected: Line):
    gathering = ReadBatcher(LONG_S, fresh_s=0)
    pause = await paused(gathering, connected)
    await connected.send(b"change")
    question = asyncio.create_task(gathering.catch_up())
    await pause
    assert connected.reader._buffer == bytearray(b"change")
    assert not question.done()
    gathering.mark_processed()
    await question


async def test_right_after_the_machines_start_a_question_ends_the_first_pause(
    connected: Line, monkeypatch: pytest.MonkeyPatch
):
    loop = asyncio.get_running_loop()
    passed, began_at = loop.time, loop.time()
    monkeypatch.setattr(loop, "time", lambda: passed() - began_at)
    gathering = ReadBatcher(LONG_S, fresh_s=5.0)
    pause = asyncio.create_task(gathering.pause(connected.connection, bytes_read=1, is_all_processed=False))
    await eventually(lambda: gathering._requested is not None)
    question = asyncio.create_task(gathering.catch_up())
    await asyncio.wait_for(pause, 3)
    gathering.mark_processed()
    await question


async def test_a_pause_ends_by_itself(connected: Line):
    assert 0.05 <= await seconds(ReadBatcher(0.05).pause(connected.connection, bytes_read=1)) < LONG_S
    assert connected.connection.transport.is_reading()


async def test_no_request_waits_without_a_pause(connected: Line):
    gathering = ReadBatcher(LONG_S)
    await gathering.catch_up()
    await gathering.pause(None, bytes_read=1)
    await gathering.pause(SimpleNamespace(transport=None), bytes_read=1)
    await gathering.catch_up()


async def test_a_request_does_not_wait_for_a_connection_that_broke(connected: Line):
    gathering = ReadBatcher(LONG_S, fresh_s=0)
    pause = await paused(gathering, connected)
    question = asyncio.create_task(gathering.catch_up())
    pause.cancel()
    await asyncio.gather(pause, return_exceptions=True)
    gathering.mark_processed()
    await question
    assert connected.connection.transport.is_reading()


async def test_the_more_comes_the_shorter_are_the_pauses(connected: Line):
    gathering = ReadBatcher(0.4)
    shorter = await seconds(gathering.pause(connected.connection, bytes_read=MAX_UNREAD_BYTES * 10))
    assert 0.04 <= shorter < 0.4
    assert await seconds(gathering.pause(connected.connection, bytes_read=1)) >= 0.4


async def test_a_pause_that_has_only_begun_goes_on(connected: Line):
    gathering = ReadBatcher(LONG_S, fresh_s=LONG_S)
    pause = await paused(gathering, connected)
    await gathering.catch_up()
    assert not connected.connection.transport.is_reading()
    pause.cancel()
    await asyncio.gather(pause, return_exceptions=True)


async def test_a_pause_that_has_only_begun_ends_for_what_has_waited_longer(connected: Line):
    gathering = ReadBatcher(0.05, fresh_s=0.05)
    await gathering.pause(connected.connection, bytes_read=1)
    assert not gathering.is_requested
    pause = asyncio.create_task(gathering.pause(connected.connection, bytes_read=1, is_all_processed=False))
    await eventually(lambda: not connected.connection.transport.is_reading())
    question = asyncio.create_task(gathering.catch_up())
    await pause
    assert (gathering.is_requested, question.done()) == (True, False)
    gathering.mark_processed()
    await question
    assert not gathering.is_requested
