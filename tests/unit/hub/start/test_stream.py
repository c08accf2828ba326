"""The hub waits for a program to listen as long as connections are refused, and in no other case."""

from __future__ import annotations

import asyncio
import time

import pytest

from gpuspawner.hub.start import stream
from gpuspawner.hub.start.stream import wait_until_listening
from tests.unit.hub.real_hub import unused_port


@pytest.fixture
def port() -> int:
    """A port on which no program listens."""
    return unused_port()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LISTEN_POLL_S", 0.01)


async def test_it_returns_once_the_program_listens(port: int):
    waiting = asyncio.create_task(wait_until_listening(f"http://127.0.0.1:{port}", timeout_s=20))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port):
        assert await asyncio.wait_for(waiting, 5) is True


async def test_it_gives_up_when_the_time_is_over(port: int):
    began = time.monotonic()
    await wait_until_listening(f"http://127.0.0.1:{port}", timeout_s=0.2)
    assert 0.2 <= time.monotonic() - began < 5


@pytest.mark.parametrize("address", ["", None, ("127.0.0.1", 1), "http://", "http://127.0.0.1", "http://[::1", 7])
async def test_without_an_address_it_does_not_wait(address: object):
    await asyncio.wait_for(wait_until_listening(address, timeout_s=60), 5)


async def test_it_does_not_wait_for_an_address_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch):
    async def swallowed(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", swallowed)
    assert await asyncio.wait_for(wait_until_listening("http://127.0.0.1:1", timeout_s=60), 5) is False
