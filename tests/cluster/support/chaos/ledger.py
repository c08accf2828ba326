"""The events of a chaos run, moment by moment, and the broken promises."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from tests.cluster.support.storm.claims import Server

SHOWN_OF_A_PROMISE = 5
SHOWN_BEFORE = 12


class Promise(StrEnum):
    """The promises that hold through all of it."""

    LIMITS = "no limit is exceeded"
    HUB = "the hub ends only when it is asked to"
    SERVERS = "no waiting or running server is lost"
    PODS = "no pod is left of a server that the hub does not know"
    ANSWERS = "no answer is a 500"
    REASONS = "every start that ended has a reason code"
    CLAIMS = "a refused start leaves no volume claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened.

    :param at: monotonic, in seconds.
    :param server: None for what happened to the cluster or to the hub.
    """

    at: float
    server: Server | None
    text: str
    promise: Promise | None = None


@dataclass(slots=True)
class Ledger:
    """Everything that happened.

    :param seed: of the run.
    """

    seed: int
    began: float = field(default_factory=time.monotonic)
    entries: list[Entry] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    _going_on: list[str] = field(default_factory=list)
    _outages: list[tuple[float, float]] = field(default_factory=list)

    def note(self, text: str, *, server: Server | None = None) -> None:
        self.entries.append(Entry(at=time.monotonic(), server=server, text=text))

    def breach(self, promise: Promise, text: str, *, server: Server | None = None, at: float | None = None) -> None:
        """Note that a promise was broken, and what went on in the cluster meanwhile.

        :param at: monotonic, in seconds; None = now.
        """
        meanwhile = f" (meanwhile: {', '.join(self._going_on)})" if at is None and self._going_on else ""
        moment = time.monotonic() if at is None else at
        self.entries.append(Entry(at=moment, server=server, text=text + meanwhile, promise=promise))

    @contextmanager
    def during(self, fault: str, *, is_outage: bool = False) -> Iterator[None]:
        """Have something go on inside the block.

        :param is_outage: the hub cannot rely on answers of the API server meanwhile.
        """
        began = time.monotonic()
        self.note(f"begins: {fault}")
        self.done[fault] += 1
        self._going_on.append(fault)
        if is_outage:
            self._outages.append((began, float("inf")))
        try:
            yield
        finally:
            self._going_on.remove(fault)
            self.note(f"is over: {fault}")
            if is_outage:
                self._outages[-1] = (began, time.monotonic())

    def had_outage(self, begin: float, end: float) -> bool:
        """Tell whether the hub could not rely on the API server at some moment of a span (monotonic seconds)."""
        return any(since < end and until > begin for since, until in self._outages)

    def broken(self) -> dict[Promise, list[Entry]]:
        """Return what broke each promise, in order; those that held are left out."""
        found: defaultdict[Promise, list[Entry]] = defaultdict(list)
        for entry in sorted(self.entries, key=lambda each: each.at):
            if entry.promise is not None:
                found[entry.promise].append(entry)
        return dict(found)

    def report(self) -> str:
        """Return what broke each promise, each time with what had happened to that server and around it."""
        lines = [f"chaos with seed {self.seed}: {dict(sorted(self.done.items()))}"]
        for promise, entries in self.broken().items():
            lines.append(f"\nBROKEN {len(entries)} times: {promise}")
            for entry in entries[:SHOWN_OF_A_PROMISE]:
                lines += [self.line(entry), *(f"      {self.line(each)}" for each in self._before(entry))]
        return "\n".join(lines)

    def line(self, entry: Entry) -> str:
        subject = "" if entry.server is None else f"{entry.server[0]}/{entry.server[1]}: "
        mark = "BROKEN " if entry.promise else ""
        return f"{entry.at - self.began:7.1f} s  {mark}{subject}{entry.text}"

    def _before(self, entry: Entry) -> list[Entry]:
        """Return what happened to a server, and around it since it was first heard of in these lines."""
        if entry.server is None:
            around = [each for each in self._around() if each.at < entry.at]
            return around[-SHOWN_BEFORE // 2 :]
        own = sorted(
            (each for each in self.entries if each.server == entry.server and each.at <= entry.at),
            key=lambda each: each.at,
        )
        since = own[-SHOWN_BEFORE:][0].at
        related = sorted([*self._around(), *own[:-1]], key=lambda each: each.at)
        return [each for each in related if since <= each.at <= entry.at][-2 * SHOWN_BEFORE :]

    def _around(self) -> list[Entry]:
        """Return what happened to cluster and hub."""
        return [each for each in self.entries if each.server is None and each.promise in {None, Promise.HUB}]
