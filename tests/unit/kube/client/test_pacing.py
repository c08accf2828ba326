"""Turns for the loop, pauses that grow, and a clock that only goes forward."""

from __future__ import annotations

import asyncio
import time

from gpuspawner.kube.client.pacing import Backoff, SharedTasks, take_turns
from tests.unit.clocks import Clock


async def count_turns(*, slice_s: float) -> int:
    """Return how many turns other tasks get while a caller works on ten values, each for a millisecond."""
    count = 0

    async def others() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    async for _ in take_turns(range(10), slice_s=slice_s):
        time.sleep(0.001)  # noqa: ASYNC251  # work that blocks the event loop
    task.cancel()
    return count


async def test_other_tasks_get_a_turn_after_each_slice():
    assert await count_turns(slice_s=0.0005) == 10


async def test_short_work_is_not_interrupted():
    assert await count_turns(slice_s=60) == 0


def test_pauses_double_up_to_a_limit():
    backoff = Backoff(first_s=1, longest_s=5, random=lambda: 1.0)
    assert [backoff.draw_delay_s() for _ in range(5)] == [1, 2, 4, 5, 5]


def test_pauses_are_anything_from_nothing_up_to_the_limit():
    numbers = iter([0.0, 0.5, 0.25])
    backoff = Backoff(first_s=4, longest_s=100, random=lambda: next(numbers))
    assert [backoff.draw_delay_s() for _ in range(3)] == [0, 4, 4]


def test_pauses_begin_anew_after_a_success():
    backoff = Backoff(first_s=1, longest_s=5, random=lambda: 1.0)
    backoff.draw_delay_s()
    backoff.reset()
    assert backoff.draw_delay_s() == 1


async def test_callers_of_one_key_share_a_task():
    tasks: SharedTasks[str, int] = SharedTasks()
    runs: list[str] = []

    async def run() -> int:
        runs.append("run")
        await asyncio.sleep(0)
        return len(runs)

    assert await asyncio.gather(*(tasks.wait_for(key, run) for key in ("a", "a", "b"))) == [2, 2, 2]
    assert await tasks.wait_for("a", run) == 3


async def test_callers_wait_as_long_as_the_task_has_had_less_time_than_they_give_it(clock: Clock):
    tasks: SharedTasks[str, str] = SharedTasks(clock=clock)
    opened = asyncio.Event()

    async def run() -> str:
        await opened.wait()
        return "done"

    assert await tasks.wait_for("a", run, wait_s=0) is None
    clock.now += 60
    assert await asyncio.wait_for(tasks.wait_for("a", run, wait_s=60), 10) is None
    waiting = [asyncio.create_task(tasks.wait_for("a", run, wait_s=wait_s)) for wait_s in (61, None)]
    await asyncio.sleep(0)
    opened.set()
    assert await asyncio.gather(*waiting) == ["done", "done"]


async def test_a_caller_that_leaves_does_not_end_the_task():
    tasks: SharedTasks[str, str] = SharedTasks()
    opened = asyncio.Event()

    async def run() -> str:
        await opened.wait()
        return "done"

    first, second = (asyncio.create_task(tasks.wait_for("a", run)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    opened.set()
    assert await second == "done"
