"""Changes that a watch missed may take a while to arrive: nothing is confirmed before all of them have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.kube.watch import watch as watch_module
from gpuspawner.kube.watch.object_caches import PodCache
from gpuspawner.kube.watch.watch import MAX_BATCH_BYTES, Watch, WatchedResource, WatchTiming
from tests.unit.kube.watch_server import bookmark, event, eventually, pod

RUSH = 400
SETTLE_S = 2.0
"""Seconds without an event that end the rush; far more than a loaded machine delays a sleep of 1 ms."""


class Stream:
    """The answer to a watch, chunk by chunk."""

    status = 200
    connection = None

    def __init__(self) -> None:
        self.content = self

    def read_nowait(self) -> bytes:
        return b""

    def close(self) -> None:
        """Do nothing: there is no connection."""


def begin(
    stream: Stream, occupancy: Occupancy, *, timing: WatchTiming, confirm: Callable[[float], None] = lambda _: None
) -> asyncio.Task[None]:
    """Begin to read a watch that is answered with a stream."""

    async def method(**_: Any) -> Stream:
        return stream

    watch = Watch(
        WatchedResource(method=method, page_size=1),
        PodCache(occupancy),
        confirm=confirm,
        timing=timing,
        clock=lambda: 7.0,
        random=lambda: 0.0,
    )
    return asyncio.create_task(watch.stream())


class Rush(Stream):
    """A watch whose events arrive one by one, more slowly than they are read, and then no more.

    :ivar confirmed: moments that were confirmed.
    :ivar early: how many there were when each event arrived.
    """

    def __init__(self) -> None:
        super().__init__()
        self.confirmed: list[float] = []
        self.early: list[int] = []

    async def readany(self) -> bytes:
        if len(self.early) == RUSH:
            await asyncio.Event().wait()
        await asyncio.sleep(0.001)
        self.early.append(len(self.confirmed))
        return event("ADDED", pod(f"p{len(self.early)}"))


async def test_a_rush_that_is_slower_than_the_hub_confirms_nothing_before_its_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch_module, "IDLE_GAP_S", SETTLE_S)
    rush, occupancy = Rush(), Occupancy()
    task = begin(rush, occupancy, timing=WatchTiming(settle_s=SETTLE_S), confirm=rush.confirmed.append)
    await eventually(lambda: rush.confirmed)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (set(rush.early), len(rush.early), rush.confirmed) == ({0}, RUSH, [7.0])
    assert sum(1 for _ in occupancy.iter_pods()) == RUSH


class Flood(Stream):
    """A watch of which one large chunk arrives, a small one, and then no more."""

    def __init__(self) -> None:
        super().__init__()
        large = event("ADDED", pod("large", annotations={"large": "x" * MAX_BATCH_BYTES}))
        self._chunks = [bookmark(7) + large, event("ADDED", pod("small"))]

    async def readany(self) -> bytes:
        if not self._chunks:
            await asyncio.Event().wait()
        return self._chunks.pop(0)


async def test_no_pause_follows_a_large_chunk():
    occupancy = Occupancy()
    task = begin(Flood(), occupancy, timing=WatchTiming(batch_s=600))
    await eventually(lambda: {"large", "small"} == {held.name for held in occupancy.iter_pods()})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
