"""Helpers for asyncio: take turns with other tasks, share tasks, draw retry delays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")

SLICE_S = 0.0025
"""Seconds of work after which a task yields to the event loop."""


async def take_turns(values: Iterable[_T], *, slice_s: float = SLICE_S) -> AsyncIterator[_T]:
    """Yield values, and let other tasks run whenever the caller has worked on values for one time slice."""
    since = time.perf_counter()
    for value in values:
        yield value
        if time.perf_counter() - since >= slice_s:
            await asyncio.sleep(0)
            since = time.perf_counter()


class SharedTasks(Generic[_K, _T]):
    """Runs one task at a time for each key; all callers with the key wait for the same task.

    A task continues if a caller is cancelled or a caller's wait times out. The timeout of each caller counts from the
    beginning of the task.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[_K, tuple[asyncio.Task[_T], float]] = {}

    async def wait_for(
        self, key: _K, run: Callable[[], Coroutine[Any, Any, _T]], *, wait_s: float | None = None
    ) -> _T | None:
        """Return the result of the task that runs for a key, or None if the task does not end in time.

        :param key: callers with equal keys share a task.
        :param run: called to start the task if none is running.
        :param wait_s: maximum wait in seconds, counted from the beginning of the task; None to wait for the task's end.
        """
        if key not in self._running:
            task = asyncio.create_task(run())
            task.add_done_callback(lambda _: self._running.pop(key))
            self._running[key] = task, self._clock()
        task, begun_at = self._running[key]
        left_s = None if wait_s is None else max(0.0, begun_at + wait_s - self._clock())
        done, _ = await asyncio.wait({task}, timeout=left_s)
        return task.result() if done else None


class Backoff:
    """Exponential backoff with full jitter, so that many hubs do not retry at the same moment.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

    :param first_s: upper bound in seconds of the first delay; the bound doubles with each failure.
    :param longest_s: upper bound in seconds of every delay.
    :param random: returns a random number of at least 0 and below 1.
    """

    def __init__(self, *, first_s: float, longest_s: float, random: Callable[[], float]) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = random
        self._limit_s = first_s

    def draw_delay_s(self) -> float:
        """Return a random delay in seconds, and double the upper bound of the next delay."""
        pause_s = self._random() * self._limit_s
        self._limit_s = min(self._limit_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Reset the upper bound of the next delay to ``first_s``; callers call this when a request has succeeded."""
        self._limit_s = self._first_s
