"""Changes that a watch missed may take a while to arrive: nothing is confirmed before all of them have."""

from __future__ import annotations

import asyncio
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


class Rush:
    """A watch whose events arrive one by one, more slowly than they are read, and then no more.

    :ivar confirmed: moments that were confirmed.
    :ivar early: how many there were when each event arrived.
    """

    status = 200
    connection = None

    def __init__(self) -> None:
        self.content = self
        self.confirmed: list[float] = []
        self.early: list[int] = []

    def read_nowait(self) -> bytes:
        return b""

    async def readany(self) -> bytes:
        if len(self.early) == RUSH:
            await asyncio.Event().wait()
        await asyncio.sleep(0.001)
        self.early.append(len(self.confirmed))
        return event("ADDED", pod(f"p{len(self.early)}"))

    def close(self) -> None:
        """Do nothing: there is no connection."""


async def test_a_rush_that_is_slower_than_the_hub_confirms_nothing_before_its_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch_module, "IDLE_GAP_S", SETTLE_S)
    rush, occupancy, done = Rush(), Occupancy(), asyncio.Event()

    async def method(**_: Any) -> Rush:
        return rush

    def confirm(moment: float) -> None:
        rush.confirmed.append(moment)
        done.set()

    watch = Watch(
        WatchedResource(method=method, page_size=1),
        PodCache(occupancy),
        confirm=confirm,
        timing=WatchTiming(settle_s=SETTLE_S),
        clock=lambda: 7.0,
        random=lambda: 0.0,
    )
    task = asyncio.create_task(watch.stream())
    async with asyncio.timeout(30):
        await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (set(rush.early), len(rush.early), rush.confirmed) == ({0}, RUSH, [7.0])
    assert sum(1 for _ in occupancy.iter_pods()) == RUSH


class Flood:
    """A watch of which one large chunk arrives, a small one, and then no more."""

    status = 200

    def __init__(self) -> None:
        self.content = self
        large = event("ADDED", pod("large", annotations={"large": "x" * MAX_BATCH_BYTES}))
        self._chunks = [bookmark(7) + large, event("ADDED", pod("small"))]

    def read_nowait(self) -> bytes:
        return b""

    async def readany(self) -> bytes:
        if not self._chunks:
            await asyncio.Event().wait()
        return self._chunks.pop(0)

    def close(self) -> None:
        """Do nothing: there is no connection."""


async def test_no_pause_follows_a_large_chunk():
    occupancy, flood = Occupancy(), Flood()

    async def method(**_: Any) -> Flood:
        return flood

    watch = Watch(
        WatchedResource(method=method, page_size=1),
        PodCache(occupancy),
        confirm=lambda moment: None,
        timing=WatchTiming(batch_s=600),
        clock=lambda: 7.0,
        random=lambda: 0.0,
    )
    task = asyncio.create_task(watch.stream())
    await eventually(lambda: {"large", "small"} == {held.name for held in occupancy.iter_pods()})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
