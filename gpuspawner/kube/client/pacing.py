"""Helpers for asyncio: take turns with other tasks, share and cache answers, draw retry delays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")

SLICE_S = 0.0025
"""Seconds of work after which a task yields to the event loop."""
MAX_ANSWERS = 4096
"""Maximum number of answers in one cache; the oldest goes first."""


async def take_turns(values: Iterable[_T], *, slice_s: float = SLICE_S) -> AsyncIterator[_T]:
    """Yield values, and let other tasks run whenever the caller has worked on values for one time slice."""
    since = time.perf_counter()
    for value in values:
        yield value
        if time.perf_counter() - since >= slice_s:
            await asyncio.sleep(0)
            since = time.perf_counter()


class Answer(NamedTuple, Generic[_T]):
    """An answer of the API server.

    :param at: seconds of the clock when the hub asked.
    :param until: seconds of the clock until which the hub does not ask again.
    """

    value: _T
    at: float
    until: float


class CachedAnswers(Generic[_K, _T]):
    """Keeps the last answer for each key, and sends one request at a time: all callers with the key wait for it.

    A request continues if a caller is cancelled or a caller's wait times out. The timeout of each caller counts from
    the beginning of the request.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[_K, Answer[_T]] = {}
        self._running: dict[_K, tuple[asyncio.Task[_T], float]] = {}

    def get(self, key: _K) -> Answer[_T] | None:
        """Return the last answer for a key, however old it is; None if there is none."""
        return self._answers.get(key)

    async def read(
        self,
        key: _K,
        ask: Callable[[], Coroutine[Any, Any, tuple[_T, float]]],
        *,
        wait_s: float | None = None,
        renew: bool = False,
    ) -> _T | None:
        """Return the last answer for a key while it holds, else a new one; None if it does not arrive in time.

        :param ask: sends the request, and returns the answer and the seconds for which it holds.
        :param wait_s: maximum wait in seconds, counted from the beginning of the request; None for no limit.
        :param renew: whether to ask although the last answer holds.
        """
        known = self._answers.get(key)
        if known is not None and self._clock() < known.until and not renew:
            return known.value
        if key not in self._running:
            task = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(lambda _: self._running.pop(key))
            self._running[key] = task, self._clock()
        task, begun_at = self._running[key]
        left_s = None if wait_s is None else max(0.0, begun_at + wait_s - self._clock())
        done, _ = await asyncio.wait({task}, timeout=left_s)
        return task.result() if done else None

    async def _ask(self, key: _K, ask: Callable[[], Coroutine[Any, Any, tuple[_T, float]]]) -> _T:
        asked_at = self._clock()
        value, holds_s = await ask()
        self._answers.pop(key, None)
        self._answers[key] = Answer(value, asked_at, self._clock() + holds_s)
        if len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        return value


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
