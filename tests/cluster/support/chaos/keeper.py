"""Keeps a hub alive through a chaos run: kills it at times, starts it again, and notes where it ended by itself."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote

from devcluster.errors import DevclusterError
from devcluster.hub import Hub
from tests.cluster.support.chaos.ledger import Ledger, Promise

LOOK_S = 1.0
SCRAPE_S = 3.0
MAX_SLOW_STARTS = 3
"""A hub that does not answer after so many starts, each within the time that devcluster allows, breaks a promise."""
_SPAWNS = re.compile(r'^jupyterhub_gpuspawner_spawns_total\{.*outcome="(\w*)"\} (\S+)$', re.MULTILINE)
_ERROR_500 = re.compile(r"^\[E (\S+ \S+) JupyterHub [^\]]*\] (500 [A-Z]+ .*)$", re.MULTILINE)
_SERVER = re.compile(r"/(?:users|spawn)/([^/? ]+)(?:/server)?(?:s?/([^/? ]+))?")
NO_CODE = frozenset({"error", ""})
"""Outcomes of a start that say nothing of why it ended: see docs/operations.md."""


@dataclass(slots=True, kw_only=True)
class Keeper:
    """One hub after another.

    :param kills_at: monotonic, in seconds.
    :param on_end: called in the moment before a kill, and when a hub has ended by itself.
    :param is_hub_there: set while a hub answers.
    :param outcomes: the outcomes of starts in the hubs' metrics, the latest of each hub.
    """

    hub: Hub
    ledger: Ledger
    kills_at: Sequence[float]
    on_end: Callable[[], None]
    is_hub_there: asyncio.Event
    is_over: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)
    _of_this_hub: Counter[str] = field(default_factory=Counter)

    async def keep(self) -> None:
        """Look after the hub until told that it is over."""
        due, scraped_at = list(self.kills_at), 0.0
        self.is_hub_there.set()
        while not self.is_over:
            if failure := self.hub.failure():
                self.ledger.breach(Promise.HUB, failure)
                self.on_end()
                await self._start_anew()
            elif due and time.monotonic() > due[0]:
                del due[0]
                self.on_end()
                self.ledger.note("the hub is killed")
                self.ledger.done["the hub is killed"] += 1
                os.kill(self.hub.hub_pid, signal.SIGKILL)
                await self._start_anew()
            elif time.monotonic() - scraped_at > SCRAPE_S:
                scraped_at = time.monotonic()
                await self.scrape()
            await asyncio.sleep(LOOK_S)

    async def scrape(self) -> None:
        """Read what has become of starts; each that ended without a reason breaks a promise."""
        try:
            answer = await asyncio.to_thread(self.hub.client.request, "GET", "/metrics")
        except OSError:
            return
        found: Counter[str] = Counter()
        for outcome, count in _SPAWNS.findall(str(answer.body)):
            found[outcome] += int(float(count))
        new = found - self._of_this_hub
        self.outcomes += new
        self._of_this_hub = found
        for outcome in NO_CODE & new.keys():
            text = f"{new[outcome]} starts ended with the outcome {outcome!r}, which is no reason"
            self.ledger.breach(Promise.REASONS, text)

    async def _start_anew(self) -> None:
        self.is_hub_there.clear()
        self._of_this_hub = Counter()
        began = time.monotonic()
        for attempt in itertools.count(1):
            try:
                await asyncio.to_thread(self.hub.restart)
                break
            except DevclusterError as error:
                # A hub that runs but does not answer in time may lack processor time: other programs on the machine
                # have made Python's imports alone take 30 s. A hub that ended by itself has no such excuse.
                if self.hub.failure() or attempt >= MAX_SLOW_STARTS:
                    self.ledger.breach(Promise.HUB, f"the hub does not come back: {error}")
                else:
                    self.ledger.note(f"the hub is slow to come back: {error}")
        self.ledger.note(f"the hub is back after {time.monotonic() - began:.1f} s")
        self.is_hub_there.set()


def note_500s(hub: Hub, ledger: Ledger) -> None:
    """Note each answer in a hub's log that was a 500, when it was given."""
    for when, request in _ERROR_500.findall(hub.log.read_text(errors="replace")):
        age = datetime.now(UTC) - datetime.fromisoformat(when).astimezone(UTC)
        found = _SERVER.search(request)
        server = (unquote(found[1]), unquote(found[2] or "")) if found else None
        ledger.breach(Promise.ANSWERS, request, server=server, at=time.monotonic() - age.total_seconds())
