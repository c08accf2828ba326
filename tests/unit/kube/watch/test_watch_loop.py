"""A watch goes on for ever: what fails is tried again, what is refused is asked for again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from gpuspawner.kube.client.api_requests import APIUnavailableError
from gpuspawner.kube.watch.watch import RelistError
from gpuspawner.kube.watch.watch_loop import RetryDelays, WatchLoop
from tests.unit.kube.watch_server import eventually

PAUSES = RetryDelays(first_s=0.001, longest_s=0.002, lost_s=0.01, never_had_s=0.02)


class Script:
    """A watch whose steps a test decides; each is an error to raise, or a moment to confirm and then end."""

    def __init__(self) -> None:
        self.confirm: Callable[[float], None] = lambda moment: None
        self.lists: list[Exception | float] = []
        self.streams: list[Exception | float] = []
        self.calls: list[str] = []
        self.cleared = 0
        self.needs_list = True
        self.is_idle = False

    def forget(self) -> None:
        self.needs_list = True

    async def clear(self) -> None:
        self.cleared += 1
        self.needs_list = True

    async def relist(self) -> None:
        self.calls.append("list")
        await self._step(self.lists)
        self.needs_list = False

    async def stream(self) -> None:
        self.calls.append("watch")
        if not self.streams:
            self.is_idle = True
            await asyncio.Event().wait()
        await self._step(self.streams)

    async def _step(self, steps: list[Exception | float]) -> None:
        step = steps.pop(0) if steps else 0.0
        if isinstance(step, Exception):
            raise step
        self.confirm(step)


class Rights:
    def __init__(self) -> None:
        self.missing = ""
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        return self.missing


class Run:
    def __init__(self) -> None:
        self.watch = Script()
        self.rights = Rights()
        self.reasons: list[str] = []
        self.pauses: list[float] = []
        self.follower = WatchLoop(
            "the pods",
            find_missing_verb=self.rights,
            pauses=PAUSES,
            random=lambda: 1.0,
            on_change=self._changed,
            sleep=self._sleep,
        )
        self.watch.confirm = self.follower.confirm
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.follower.run(self.watch))  # type: ignore[arg-type]

    async def until_idle(self) -> None:
        """Start, and wait until the watch waits for changes."""
        self.start()
        await eventually(lambda: self.watch.is_idle)

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        await asyncio.sleep(0)

    def _changed(self) -> None:
        self.reasons.append(self.follower.reason)


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    run = Run()
    yield run
    if run.task is not None:
        run.task.cancel()
        await asyncio.gather(run.task, return_exceptions=True)


async def test_nothing_is_known_before_the_first_list(run: Run):
    run.watch.lists = [APIUnavailableError("no")]
    assert (run.follower.is_known, run.follower.confirmed_at, run.follower.first_attempt.is_set()) == (
        False,
        None,
        False,
    )
    await run.until_idle()
    assert (run.follower.is_known, run.follower.first_attempt.is_set(), run.follower.reason) == (True, True, "")


async def test_the_latest_moment_counts(run: Run):
    run.follower.confirm(5.0)
    run.follower.confirm(4.0)
    assert run.follower.confirmed_at == 5.0


async def test_a_failure_is_reported_and_tried_again(run: Run):
    run.watch.lists = [APIUnavailableError("x", status=500), APIUnavailableError("x", status=None)]
    await run.until_idle()
    assert run.reasons == [
        "The Kubernetes API server answered with an error (500).",
        "The Kubernetes API server cannot be reached.",
        "",
        "",
    ]


async def test_a_broken_watch_is_taken_up_again_without_a_list(run: Run):
    run.watch.streams = [APIUnavailableError("x"), APIUnavailableError("y")]
    await run.until_idle()
    assert run.watch.calls == ["list", "watch", "watch", "watch"]
    assert run.follower.is_known


async def test_an_expired_watch_is_listed_again_and_stays_known(run: Run):
    known: list[bool] = []
    run.watch.streams = [RelistError("old")]
    run.watch.lists = [1.0, 2.0]

    def confirm(moment: float) -> None:
        known.append(run.follower.is_known)
        run.follower.confirm(moment)

    run.watch.confirm = confirm
    await run.until_idle()
    assert (run.watch.calls, known) == (["list", "watch", "list", "watch"], [False, True])


async def test_anything_else_that_goes_wrong_ends_in_a_new_list(run: Run, caplog: pytest.LogCaptureFixture):
    run.watch.streams = [RuntimeError("a"), RuntimeError("b"), KeyError("c")]
    with caplog.at_level(logging.WARNING):
        await run.until_idle()
    assert run.watch.calls == ["list", "watch"] * 4
    assert "could not be understood" in run.reasons[1]
    assert caplog.messages == ["Capacity: the pods could not be read"] * 2


async def test_without_the_right_nothing_is_asked_for(run: Run):
    run.rights.missing = "watch"
    run.start()
    await eventually(lambda: run.rights.asked > 2)
    assert (run.watch.calls, run.follower.is_known) == ([], False)
    assert run.follower.reason == "The hub may not watch the pods."
    assert run.follower.first_attempt.is_set()


async def test_a_right_that_is_taken_away_leaves_nothing_known(run: Run):
    await run.until_idle()
    run.task.cancel()  # type: ignore[union-attr]
    run.watch.streams = [APIUnavailableError("x", status=403)]
    run.rights.missing = "watch"
    run.start()
    await eventually(lambda: run.watch.cleared)
    assert (run.follower.is_known, run.follower.confirmed_at) == (False, None)
    assert run.follower.reason == "The hub may not watch the pods."


async def test_a_refusal_is_not_believed_before_the_right_was_asked_for(run: Run):
    run.watch.streams = [APIUnavailableError("x", status=403)]
    await run.until_idle()
    assert (run.watch.calls, run.rights.asked, run.watch.cleared) == (["list", "watch", "watch"], 2, 0)
    assert run.follower.is_known


async def test_pauses_grow_while_nothing_works_and_begin_anew_after_a_watch(run: Run):
    broken = APIUnavailableError("x")
    run.watch.streams = [broken, broken, broken, 1.0, broken]
    await run.until_idle()
    assert run.pauses == [0.001, 0.002, 0.002, 0.0, 0.001]


async def test_lists_again_and_again_are_slowed_down(run: Run):
    run.watch.streams = [RelistError("x"), RelistError("y"), RelistError("z")]
    await run.until_idle()
    assert run.pauses == [0.001, 0.002, 0.002]


async def test_a_list_that_works_ends_the_pauses_before_it(run: Run):
    broken = APIUnavailableError("x")
    run.watch.lists = [broken, broken, 1.0]
    run.watch.streams = [broken]
    await run.until_idle()
    assert run.pauses == [0.001, 0.002, 0.001]


async def test_a_missing_right_is_reported_until_it_is_there(run: Run):
    run.rights.missing = "list"
    run.start()
    await eventually(lambda: run.follower.missing_right)
    assert run.follower.missing_right == "list"
    run.rights.missing = ""
    await eventually(lambda: run.watch.is_idle)
    assert run.follower.missing_right == ""


async def test_each_time_that_reading_failed_is_counted_and_a_watch_that_ends_in_time_is_none(run: Run):
    run.watch.streams = [APIUnavailableError("x"), 1.0, RelistError("y"), ValueError("z"), 2.0]
    await run.until_idle()
    assert run.follower.restarts == 3
