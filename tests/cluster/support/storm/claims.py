"""Who held what and when, as far as it shows from outside, and whether each of the hub's answers was right.

Between a request and its answer no observer knows where the hub is. So what is held is bounded from both sides: a
server holds its GPUs *at most* from the moment it is asked for until it is known to be gone, and *at least* from the
moment it is known to run until a request to stop it. A refusal has to be justified by the first, a start by the second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.cluster.support.storm.rules import Key, Rules
from tests.cluster.support.storm.world import Choice

Server = tuple[str, str]
"""Name of the user, and of the server."""


@dataclass(slots=True, kw_only=True)
class Claim:
    """One request for a server and its outcome; times are monotonic, in seconds.

    :param runs_since: when it was known to run.
    :param ends_since: when the hub was asked to stop it.
    :param gone_at: when nothing was left of it; for a refused one, when that was known.
    :param refusal: the hub's message, empty for one that was not refused.
    """

    server: Server
    choice: Choice
    sent: float
    runs_since: float = math.inf
    ends_since: float = math.inf
    gone_at: float = math.inf
    refusal: str = ""

    @property
    def answered(self) -> float:
        """When it was decided, as far as is known outside."""
        return self.gone_at if self.refusal else min(self.runs_since, self.gone_at)


class Claims:
    """All claims of a storm."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._all: list[Claim] = []
        self._loads: dict[int, Counter[Key]] = {}

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._all)

    def add(self, claim: Claim) -> None:
        self._all.append(claim)
        self._loads[id(claim)] = self._rules.load(claim.server[0], claim.choice.gpu, count=claim.choice.count)

    def wrongly_refused(self) -> list[str]:
        """Return refusals that nothing justifies, a sentence each."""
        refused = [claim for claim in self._all if claim.refusal and not self._justifications(claim)]
        return [f"{claim.server} asked for {claim.choice} and was refused: {claim.refusal}" for claim in refused]

    def wrongly_started(self) -> list[str]:
        """Return starts that a limit forbids, a sentence each."""
        started = [claim for claim in self._all if claim.runs_since < math.inf]
        found = [(claim, self._transgressions(claim)) for claim in started]
        return [f"{claim.server} got {claim.choice} in spite of {why}" for claim, why in found if why]

    def reasons(self) -> Counter[str]:
        """Count what refusals were justified by: the kind of limit, or what the rules deny."""
        return Counter(str(why[0]) for claim in self._all if claim.refusal and (why := self._justifications(claim)))

    def _justifications(self, claim: Claim) -> list[str]:
        exceeded = [
            key[0] for key, add in self._load(claim).items() if self._peak(claim, key) + add > self._rules.most(key)
        ]
        return [*self._rules.denials(claim.server[0], claim.choice), *exceeded]

    def _transgressions(self, claim: Claim) -> list[str]:
        held: Counter[Key] = Counter()
        for other in self._others(claim):
            if other.runs_since <= claim.sent and other.ends_since > claim.answered:
                held += self._load(other)
        exceeded = [str(key) for key, add in self._load(claim).items() if held[key] + add > self._rules.most(key)]
        return [*self._rules.denials(claim.server[0], claim.choice), *exceeded]

    def _peak(self, claim: Claim, key: Key) -> int:
        """Return how much of a count others may have held, at the moment it was most while a claim was undecided."""
        # A refused server held nothing at any time: one of two requests that exclude each other has to be let through.
        others = [
            (other, held) for other in self._others(claim) if not other.refusal and (held := self._load(other)[key])
        ]
        moments = {claim.sent, *(other.sent for other, _ in others if claim.sent < other.sent <= claim.answered)}
        return max(sum(held for other, held in others if other.sent <= at <= other.gone_at) for at in moments)

    def _others(self, claim: Claim) -> Iterator[Claim]:
        """Yield the claims of all other servers; a server that is asked for anew takes the place of itself."""
        return (other for other in self._all if other.server != claim.server)

    def _load(self, claim: Claim) -> Counter[Key]:
        return self._loads[id(claim)]
