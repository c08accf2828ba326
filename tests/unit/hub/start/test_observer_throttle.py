"""Work for many servers is done one after the other, with rests."""

from __future__ import annotations

import asyncio

from gpuspawner.hub.start.observer import WorkThrottle
from tests.unit.clocks import Clock


async def worked(turns: WorkThrottle, clock: Clock, seconds: float) -> None:
    assert await turns.wait(patience_s=0)
    with turns.measure():
        clock.now += seconds


async def test_after_work_there_is_a_rest_as_long_as_its_share_says(clock: Clock):
    turns = WorkThrottle(0.25, clock=clock)
    await worked(turns, clock, 2.0)
    clock.now += 5.8
    assert await turns.wait(patience_s=0) is False
    clock.now += 0.3
    assert await turns.wait(patience_s=0) is True


async def test_those_who_wait_are_put_in_a_row_and_those_without_patience_go(clock: Clock):
    turns = WorkThrottle(0.5, clock=clock)
    await worked(turns, clock, 0.02)
    async with asyncio.timeout(2):
        answers = await asyncio.gather(*(turns.wait(patience_s=0.12) for _ in range(6)))
    # Work takes 0.02 s and a rest as long: the first begins after 0.02 s, each other one 0.04 s later.
    assert answers == [True, True, True, False, False, False]


async def test_what_never_took_long_needs_no_rest(clock: Clock):
    turns = WorkThrottle(0.05, clock=clock)
    for _ in range(3):
        await worked(turns, clock, 0.0)
