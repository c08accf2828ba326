"""Keeps what is worked out for many servers at once from taking all of the hub's time: one after the other, with rests.

The hub has one thread. Fifty servers that wait for the same node all need a verdict, and give up in the same second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class WorkThrottle:
    """One kind of work.

    :param share: part of the time that it may take, above 0, at most 1.
    :param clock: monotonic seconds.
    """

    def __init__(self, share: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._free_at = float("-inf")
        self._last_s = 0.0

    async def wait(self, *, patience_s: float) -> bool:
        """Wait for one's turn; False at once where it would come later than after so many seconds."""
        now = self._clock()
        at = max(now, self._free_at)
        if at - now > patience_s:
            return False
        # Others come after this one, which takes as long as the last did.
        self._free_at = at + self._last_s / self._share
        if at > now:
            await asyncio.sleep(at - now)
        return True

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Note how long the work inside takes."""
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._last_s = now - began
            self._free_at = max(self._free_at, now + self._last_s * (1 / self._share - 1))
