"""A monotonic clock for tests, at any uptime of a machine.

A difference of monotonic seconds is rounded, by more the longer the machine has run: ``now - (now - 0.9) >= 0.9`` is
false at about half of all uptimes. So no test may depend on the uptime that it happens to run at.
"""

from __future__ import annotations

import math
import random

from hypothesis import strategies as st

SHORTEST_S = 1.0
LONGEST_S = 10 * 365 * 86400.0
"""Ten years."""

# Every decade is as likely as any other: most of the uptimes at which rounding differs are short ones.
uptimes = st.floats(0.0, math.log10(LONGEST_S)).map(lambda power: min(10.0**power, LONGEST_S))


class Clock:
    """Monotonic seconds that pass when a test says so: ``clock.now += 5``.

    :ivar now: seconds since the machine started.
    """

    def __init__(self, now: float = SHORTEST_S) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def clock_for(test: str) -> Clock:
    """Return a clock at an uptime that is drawn for a test by its name: always the same one, and for each another."""
    power = random.Random(test).uniform(math.log10(SHORTEST_S), math.log10(LONGEST_S))
    return Clock(10.0**power)
