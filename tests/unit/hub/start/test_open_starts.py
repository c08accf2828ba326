"""Starts are followed until all of their tasks have ended, whatever cancels them and however often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpuspawner.hub.start.open_starts import OpenStarts, end_tasks, raise_if_over
from tests.unit.kube.watch_server import eventually


class Deaf:
    """A task that goes on although it is cancelled, as ``asyncio.wait_for`` of Python 3.11 may let it."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.hears = False
        self.checks = False
        self.sent = 0

    async def run(self) -> str:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                if self.checks:
                    await asyncio.ensure_future(self.send())
                if self.hears:
                    raise

    async def send(self) -> None:
        raise_if_over()
        self.sent += 1


async def wait_for(starting: asyncio.Future[Any]) -> Any:
    try:
        return await asyncio.shield(starting)
    finally:
        await end_tasks(starting)


async def test_a_caller_that_is_cancelled_again_waits_until_the_task_has_ended():
    deaf = Deaf()
    task = asyncio.ensure_future(deaf.run())
    await asyncio.sleep(0)
    ending = asyncio.ensure_future(end_tasks(task))
    await eventually(lambda: deaf.cancelled)
    for number in range(1, 4):
        ending.cancel()
        await eventually(lambda least=number: deaf.cancelled > least)
        assert (ending.done(), task.done()) == (False, False)
    deaf.hears = True
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert task.cancelled()


async def test_a_start_that_goes_on_after_its_cancellation_sends_nothing():
    starts, deaf = OpenStarts(), Deaf()
    deaf.checks = True
    start = starts.follow(deaf.run, wait_for)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    assert (deaf.cancelled, deaf.sent) == (1, 0)


async def test_a_start_needs_a_stop_from_its_cancellation_until_the_server_was_stopped():
    starts, deaf = OpenStarts(), Deaf()
    start = starts.follow(deaf.run, wait_for)
    await asyncio.sleep(0)
    before = starts.need_stop
    start.cancel()
    during = starts.need_stop
    deaf.hears = True
    await asyncio.gather(start, return_exceptions=True)
    after = starts.need_stop
    starts.close_earlier()
    assert [before, during, after, starts.need_stop] == [False, True, True, False]


async def test_a_start_that_succeeds_needs_no_stop():
    starts = OpenStarts()

    async def succeed() -> str:
        return "http://x"

    assert await starts.follow(succeed, wait_for) == "http://x"
    await asyncio.sleep(0)
    assert (starts.need_stop, starts.have_earlier) == (False, False)


async def test_all_starts_end_even_if_each_was_cancelled_before():
    starts, deafs = OpenStarts(), [Deaf(), Deaf()]
    futures = [starts.follow(deaf.run, wait_for) for deaf in deafs]
    await asyncio.sleep(0)
    for future in futures:
        future.cancel()
    ending = asyncio.ensure_future(starts.end())
    await eventually(lambda: all(deaf.cancelled for deaf in deafs))
    assert not ending.done()
    for deaf in deafs:
        deaf.hears = True
    await ending
    assert [future.done() for future in futures] == [True, True]


async def test_a_start_that_is_cancelled_before_it_has_begun_begins_nothing():
    starts, begun = OpenStarts(), []

    async def begin() -> None:
        begun.append(1)

    starts.follow(begin, wait_for).cancel()
    await starts.end()
    assert begun == []


async def test_the_request_that_cancels_a_start_is_the_last_that_has_seen_it():
    starts = OpenStarts()
    goes_on = asyncio.Event()

    async def look() -> bool:
        starts.note_request()
        await goes_on.wait()
        return starts.is_stop_ahead

    request = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    seen = starts.is_stop_ahead, starts.has_lost_stop
    goes_on.set()
    assert (seen, await request, starts.is_stop_ahead, starts.has_lost_stop) == ((True, False), False, False, True)
