"""Counts different requests and their outcomes, so that a run tries as many as it promises."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

ACCEPTED, REFUSED, TURNED_AWAY, SHOWN = "accepted", "refused", "turned away", "shown"
_OUTCOMES = (ACCEPTED, REFUSED, SHOWN, TURNED_AWAY)


@dataclass(slots=True, kw_only=True)
class Tally:
    """The outcomes of different requests, each counted once.

    :param wanted: requests that are enough.
    :ivar is_broken: an answer was wrong; whatever is sent from then on is to find out why.
    """

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
