"""Counts requests and their outcomes, so that a run says which ones it has tried."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

PROPERTY = "fuzz"
"""Name of the property of a test's report that holds its counts."""

ACCEPTED, REFUSED, TURNED_AWAY, SHOWN = "accepted", "refused", "turned away", "shown"
_OUTCOMES = (ACCEPTED, REFUSED, SHOWN, TURNED_AWAY)


@dataclass(slots=True, kw_only=True)
class Tally:
    """The outcomes of different requests, each counted once.

    :param wanted: requests that are enough.
    :ivar is_broken: an answer was wrong; whatever is sent from then on is to find out why.
    """

    door: str
    site: str
    wanted: int = sys.maxsize
    is_broken: bool = False
    seen: dict[str, set[bytes]] = field(default_factory=lambda: {outcome: set() for outcome in _OUTCOMES}, repr=False)

    def note(self, sent: bytes, outcome: str) -> None:
        self.seen[outcome].add(sent)

    def count(self, outcome: str) -> int:
        return len(self.seen[outcome])

    @property
    def answered(self) -> int:
        """Requests that reached a spawner."""
        return sum(self.count(outcome) for outcome in _OUTCOMES if outcome != TURNED_AWAY)

    def spares(self, sent: bytes) -> bool:
        """Tell whether nothing would be learnt from a request."""
        return not self.is_broken and (self.answered >= self.wanted or any(sent in each for each in self.seen.values()))

    def as_property(self) -> tuple[str, str]:
        """Return the counts as a property of a test's report."""
        return PROPERTY, json.dumps([self.door, self.site, *(self.count(outcome) for outcome in _OUTCOMES)])


def table(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Return the counts of all tests in lines for people."""
    rows = sorted(json.loads(str(value)) for name, value in properties if name == PROPERTY)
    if not rows:
        return []
    total = ["all", "", *(sum(counts) for counts in zip(*(row[2:] for row in rows), strict=True))]
    return [_line("door", "site", *_OUTCOMES), *(_line(*row) for row in (*rows, total))]


def _line(door: str, site: str, *columns: object) -> str:
    cells = (f"{each:,}" if isinstance(each, int) else each for each in columns)
    return f"{door:<10}{site:<22}" + "".join(f"{cell:>13}" for cell in cells)
