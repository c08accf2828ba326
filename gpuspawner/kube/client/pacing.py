"""When work goes on: turns for the event loop, pauses after failures, and a clock that cannot be turned back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SLICE_S = 0.0025
"""Seconds of work after which the event loop gets a turn; one object more is worked on before that is noticed."""


class Pacer:
    """Keeps one task from holding the event loop.

    :param clock: monotonic seconds; only differences matter.
    """

    def __init__(self, *, slice_s: float = SLICE_S, clock: Callable[[], float] = time.perf_counter) -> None:
        self._slice_s = slice_s
        self._clock = clock
        self._since = clock()

    def reset(self) -> None:
        """Note that the loop had a turn just now: the task was waiting for something."""
        self._since = self._clock()

    async def yield_if_due(self) -> None:
        """Let other tasks run when a slice's time has passed; called after each piece of work."""
        if self._clock() - self._since >= self._slice_s:
            await asyncio.sleep(0)
            self.reset()


class Backoff:
    """Pauses between attempts, with full jitter: many hubs must not come back to a weak API server in step.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

    :param first_s: longest pause after the first failure, doubled by each further one.
    :param longest_s: longest pause at all.
    :param random: numbers from 0 up to 1.
    """

    def __init__(self, *, first_s: float, longest_s: float, random: Callable[[], float]) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = random
        self._limit_s = first_s

    def draw_delay_s(self) -> float:
        """Return how long to pause now, in seconds."""
        pause_s = self._random() * self._limit_s
        self._limit_s = min(self._limit_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin anew after a success."""
        self._limit_s = self._first_s


class SteadyClock:
    """Seconds that never go back, whatever the clock below does.

    A clock that is set forward makes everything look older, which is soon put right by the next confirmation; one that
    is set back must not make old things look fresh, so going back counts as no time passing.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._passed = 0.0

    def __call__(self) -> float:
        """Return the seconds that have passed, counted from some moment."""
        now = self._clock()
        self._passed += max(0.0, now - self._last)
        self._last = now
        return self._passed
