"""A spawner that requests are sent to, one after the other, and the judgement of each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from gpuspawner.hub.spawner import GPUSpawner
from tests.fuzz.support.doors import Answer, Door, TurnedAwayError
from tests.fuzz.support.judge import misshown, strange, unnamed
from tests.fuzz.support.sites import Site
from tests.fuzz.support.tally import ACCEPTED, REFUSED, SHOWN, TURNED_AWAY, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """One site's spawner.

    :param runner: of the loop that everything here belongs to; it runs while a request is answered and no longer.
    :param plain: KubeSpawner's own pod of the same person.
    """

    runner: asyncio.Runner
    site: Site
    spawner: GPUSpawner
    plain: dict[str, Any]

    def ask(self, door: Door, sent: bytes, *, tally: Tally) -> list[str]:
        """Send one request, count it, and return what is wrong with the answer."""
        if tally.spares(sent):
            return []
        was_broken, tally.is_broken = tally.is_broken, True
        try:
            # A context of its own, as each request of tornado has.
            answer = self.runner.run(door(self.spawner, sent), context=copy_context())
            outcome, faults = _outcome(answer), list(self._faults(answer))
        except TurnedAwayError:
            outcome, faults = TURNED_AWAY, []
        tally.is_broken = was_broken or bool(faults)
        tally.note(sent, outcome)
        return faults

    def _faults(self, answer: Answer) -> Iterator[str]:
        if answer.pod is not None:
            yield from strange(answer.pod, self.site, plain=self.plain)
        if answer.refused is not None:
            yield from unnamed(answer.refused, answer.names)
        if answer.page:
            yield from misshown(answer.page, answer.refused if answer.is_sent_back else None)


def _outcome(answer: Answer) -> str:
    if answer.refused is not None:
        return REFUSED
    return SHOWN if answer.pod is None else ACCEPTED
