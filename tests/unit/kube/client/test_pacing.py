"""Turns for the loop, pauses that grow, and a clock that only goes forward."""

from __future__ import annotations

import asyncio
import time

from gpuspawner.kube.client.pacing import MAX_ANSWERS, Backoff, CachedAnswers, take_turns
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


async def test_callers_of_one_key_share_a_request():
    answers: CachedAnswers[str, int] = CachedAnswers()
    runs: list[str] = []

    async def ask() -> tuple[int, float]:
        runs.append("ask")
        await asyncio.sleep(0)
        return len(runs), 0.0

    assert await asyncio.gather(*(answers.read(key, ask) for key in ("a", "a", "b"))) == [2, 2, 2]
    assert await answers.read("a", ask) == 3


async def test_an_answer_holds_as_long_as_it_says_unless_a_caller_wants_a_new_one(clock: Clock):
    answers: CachedAnswers[str, int] = CachedAnswers(clock=clock)
    numbers = iter(range(9))

    async def ask() -> tuple[int, float]:
        return next(numbers), 10.0

    found = []
    for passed_s, renew in ((0, False), (9, False), (0, True), (9, False), (2, False)):
        clock.now += passed_s
        found.append(await answers.read("a", ask, renew=renew))
    assert (found, answers.get("b")) == ([0, 0, 1, 1, 2], None)
    last = answers.get("a")
    assert last is not None
    assert (last.at, last.until) == (clock.now, clock.now + 10)


async def test_very_many_answers_are_not_kept():
    answers: CachedAnswers[int, int] = CachedAnswers()
    for number in range(MAX_ANSWERS + 1):

        async def ask(number: int = number) -> tuple[int, float]:
            return number, 10.0

        await answers.read(number, ask)
    assert (answers.get(0), answers.get(1) is not None) == (None, True)


async def test_callers_wait_as_long_as_the_request_has_had_less_time_than_they_give_it(clock: Clock):
    answers: CachedAnswers[str, str] = CachedAnswers(clock=clock)
    opened = asyncio.Event()

    async def ask() -> tuple[str, float]:
        await opened.wait()
        return "done", 0.0

    assert await answers.read("a", ask, wait_s=0) is None
    clock.now += 60
    assert await asyncio.wait_for(answers.read("a", ask, wait_s=60), 10) is None
    waiting = [asyncio.create_task(answers.read("a", ask, wait_s=wait_s)) for wait_s in (61, None)]
    await asyncio.sleep(0)
    opened.set()
    assert await asyncio.gather(*waiting) == ["done", "done"]


async def test_a_caller_that_leaves_does_not_end_the_request():
    answers: CachedAnswers[str, str] = CachedAnswers()
    opened = asyncio.Event()

    async def ask() -> tuple[str, float]:
        await opened.wait()
        return "done", 0.0

    first, second = (asyncio.create_task(answers.read("a", ask)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    opened.set()
    assert await second == "done"
