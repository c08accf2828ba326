"""The cost of a process, measured from inside of it: stalls of its event loop, processor time, memory."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

FINE_S = 0.001
COARSE_S = 0.01
"""How often a ticker ticks: finely it sees short stalls, coarsely it costs next to no processor time."""


class Ticker:
    """Measures how late a task runs that wants to run all the time, as long as this is open.

    :ivar longest_s: how late it was at most, in seconds.
    :ivar longest_cpu_s: processor time that the event loop's thread took meanwhile: what others on the machine took
        from it is not in there.
    """

    def __init__(self, every_s: float) -> None:
        self.longest_s = 0.0
        self.longest_cpu_s = 0.0
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One more turn, for a stall that has just ended.
        await asyncio.sleep(2 * self._every_s)
        if self._task is not None:
            self._task.cancel()

    async def _tick(self) -> None:
        while True:
            began, cpu_began = time.perf_counter(), time.thread_time()
            await asyncio.sleep(self._every_s)
            late_s = time.perf_counter() - began - self._every_s
            if late_s > self.longest_s:
                self.longest_s, self.longest_cpu_s = late_s, time.thread_time() - cpu_began


async def window(seconds: float, *, each_second: Callable[[], Awaitable[object]] | None = None) -> dict[str, float]:
    """Let time pass and return what the process did meanwhile.

    :param each_second: done once a second.
    """
    async with Ticker(COARSE_S) as ticker:
        began, cpu_began = time.perf_counter(), time.process_time()
        while (left_s := began + seconds - time.perf_counter()) > 0:
            await asyncio.sleep(min(1.0, left_s))
            if each_second is not None:
                await each_second()
        cpu_s, took_s = time.process_time() - cpu_began, time.perf_counter() - began
    return {
        "cpu_percent": 100 * cpu_s / took_s,
        "stall_ms": 1000 * ticker.longest_s,
        "memory_mb": rss_bytes() / 1e6,
        "peak_mb": peak_bytes() / 1e6,
    }


async def first_read(read: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Return what it costs to read the cluster for the first time, and what stays in memory."""
    gc.collect()
    before = rss_bytes()
    async with Ticker(FINE_S) as ticker:
        began, cpu_began = time.perf_counter(), time.process_time()
        await read()
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    gc.collect()
    return {
        "took_s": took_s,
        "cpu_s": cpu_s,
        "stall_ms": 1000 * ticker.longest_s,
        "stall_cpu_ms": 1000 * ticker.longest_cpu_s,
        "growth_bytes": rss_bytes() - before,
        "peak_mb": peak_bytes() / 1e6,
    }


class Stopwatch:
    """Collects how long something takes, by the clock and by the processor time of the thread that does it."""

    def __init__(self) -> None:
        self._times_s: list[tuple[float, float]] = []

    @contextmanager
    def lap(self) -> Iterator[None]:
        """Take the time of what happens inside."""
        began, cpu_began = time.perf_counter(), time.thread_time()
        yield
        self._times_s.append((time.perf_counter() - began, time.thread_time() - cpu_began))

    def percentiles(self, *, warm_up: int = 0) -> dict[str, float]:
        """Return the distribution in milliseconds, without the first laps."""
        times_s, cpu_s = zip(*self._times_s[warm_up:], strict=True)
        cuts = statistics.quantiles(times_s, n=100)
        return {
            "p50_ms": 1000 * cuts[49],
            "p99_ms": 1000 * cuts[98],
            "max_ms": 1000 * max(times_s),
            "cpu_p50_ms": 1000 * statistics.median(cpu_s),
            "cpu_p99_ms": 1000 * statistics.quantiles(cpu_s, n=100)[98],
        }


def rss_bytes() -> int:
    """Return the memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Return the most memory that the process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
