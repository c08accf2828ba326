"""Many decisions on several control planes at once, compared and counted."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from bench.control_plane import control_plane
from bench.fit.cases import PODS_PER_SCENE, case, scene
from bench.fit.compare import Opinion, Outcome, ask_ourselves, compare, describe, occupancy
from bench.fit.features import features
from bench.fit.oracle import Decision, Oracle
from bench.fit.scene import Case, Scene
from bench.result import Result
from devcluster import build

UNKNOWN_BUDGET_PERCENT = 1.0
PROGRESS_S = 10.0
SECOND_LOOKS = 2
"""How often the scheduler is asked again where it says something else than we do."""


@dataclass(slots=True)
class Tally:
    """The results of the decisions so far.

    :param bound: how many pods the scheduler bound.
    :param preempted: for how many of them it ended other pods.
    :param asked_again: decisions that were first made before the scheduler had seen all of the scene.
    :param disagreements: descriptions of the cases where the answers differ.
    :param last: the last decision and its answer.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    bound: int = 0
    preempted: int = 0
    asked_again: int = 0
    features: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)
    last: tuple[Case, Opinion, Decision] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def decisions(self) -> int:
        """Return how many there are."""
        return self.outcomes.total()


def measure(*, decisions: int, seed: int | None = None) -> Result:
    """Compare cases ``seed`` to ``seed + decisions - 1``, printing progress and every disagreement.

    :param seed: None for cases that were never drawn before.
    """
    if seed is None:
        seed = secrets.randbelow(10**8) * PODS_PER_SCENE
    print(f"fit: {decisions} decisions, seed {seed}", flush=True)
    tally = Tally()
    took_s = run(range(seed, seed + decisions), tally=tally)
    if decisions == 1 and tally.last is not None and not tally.disagreements:
        print(describe(*tally.last))
    outcomes = tally.outcomes
    return Result(
        name="fit",
        values={
            "decisions": tally.decisions,
            "agreed": outcomes[Outcome.AGREED],
            "disagreed": outcomes[Outcome.DISAGREED],
            "unknown": outcomes[Outcome.UNKNOWN],
            "not_retried": outcomes[Outcome.NOT_RETRIED],
            "unknown_percent": 100 * outcomes[Outcome.UNKNOWN] / tally.decisions,
            "bound_percent": 100 * tally.bound / tally.decisions,
            "preempted_percent": 100 * tally.preempted / tally.decisions,
            "asked_again": tally.asked_again,
            "decisions_per_s": tally.decisions / took_s,
            "seed": seed,
        },
        budgets={"disagreed": 0, "unknown_percent": UNKNOWN_BUDGET_PERCENT},
        details={"features": dict(sorted(tally.features.items()))},
    )


def run(seeds: Sequence[int], *, tally: Tally, planes: int | None = None) -> float:
    """Decide all cases and return how many seconds that took, without starting the control planes.

    :param planes: how many control planes to use; one for each core, four at most, without.
    """
    build.ensure(report=print)
    work = _Work(seeds, tally)
    count = min(planes or min(4, len(os.sched_getaffinity(0))), len(work.scenes))
    ready = threading.Barrier(count + 1)
    with ThreadPoolExecutor(count) as workers:
        working = [workers.submit(_decide_scenes, work, ready=ready) for _ in range(count)]
        began = time.monotonic()
        try:
            with contextlib.suppress(threading.BrokenBarrierError):
                ready.wait()
            began = time.monotonic()
            while wait(working, timeout=PROGRESS_S).not_done:
                _report(tally, len(seeds), took_s=time.monotonic() - began)
            for each in working:
                each.result()
        finally:
            # After an error or Ctrl-C, the rest is not needed.
            work.scenes.clear()
            ready.abort()
    return time.monotonic() - began


class _Work:
    """The work that is left.

    :ivar scenes: numbers of cases, those of one scene together.
    """

    def __init__(self, seeds: Sequence[int], tally: Tally) -> None:
        together = itertools.groupby(seeds, key=lambda seed: seed // PODS_PER_SCENE)
        self.scenes = deque([list(batch) for _, batch in together])
        self.tally = tally

    def next_scene(self) -> Sequence[int]:
        """Return the cases of a scene that no other process has taken, or none at the end."""
        with contextlib.suppress(IndexError):
            return self.scenes.popleft()
        return ()


def _report(tally: Tally, total: int, *, took_s: float) -> None:
    outcomes = tally.outcomes
    print(
        f"fit: {tally.decisions}/{total}, {outcomes[Outcome.DISAGREED]} disagreed, "
        f"{outcomes[Outcome.UNKNOWN]} unknown, {tally.decisions / took_s:.0f}/s",
        flush=True,
    )


def _decide_scenes(work: _Work, *, ready: threading.Barrier) -> None:
    """Take scenes until there are none, on a control plane of this thread's own: the kernel ends it with the thread."""
    try:
        with control_plane() as plane, contextlib.closing(Oracle(plane)) as oracle:
            ready.wait()
            while seeds := work.next_scene():
                _decide(seeds, oracle, tally=work.tally)
    except threading.BrokenBarrierError:
        return  # another one could not start, and says why
    except BaseException:
        work.scenes.clear()
        ready.abort()
        raise


class _Stage:
    """A scene that stands in a control plane, and what we know of it."""

    def __init__(self, where: Scene, oracle: Oracle) -> None:
        self._scene = where
        self._oracle = oracle
        self._known = occupancy(*oracle.put_up(where), scene=where)

    def decide(self, one: Case) -> tuple[Opinion, Decision]:
        """Return our opinion about a case, and what the scheduler does."""
        opinion = ask_ourselves(one, self._known, admitted=self._oracle.admit(one.pod))
        decision = self._oracle.decide(one.pod)
        if decision.preempting:
            self.take_down()
            self._known = occupancy(*self._oracle.put_up(self._scene), scene=self._scene)
        return opinion, decision

    def look_again(self) -> None:
        """Read the scene again: since the last time, the scheduler may have taken back the nomination of a pod."""
        self._known = occupancy(*self._oracle.read_objects(), scene=self._scene)

    def take_down(self) -> None:
        """Remove the scene."""
        self._oracle.take_down(self._scene)


def _decide(seeds: Sequence[int], oracle: Oracle, *, tally: Tally) -> None:
    """Decide cases of one scene."""
    stage = _Stage(scene(seeds[0] // PODS_PER_SCENE), oracle)
    for seed in seeds:
        one = case(seed)
        opinion, decision = stage.decide(one)
        outcome = compare(opinion, decision)
        again = 0
        while outcome is Outcome.DISAGREED and again < SECOND_LOOKS:
            again += 1
            stage.look_again()
            opinion, decision = stage.decide(one)
            outcome = compare(opinion, decision)
        with tally.lock:
            tally.outcomes[outcome] += 1
            tally.bound += bool(decision.node)
            tally.preempted += bool(decision.node and decision.preempting)
            tally.asked_again += bool(again) and outcome is not Outcome.DISAGREED
            tally.features.update(features(one))
            tally.last = (one, opinion, decision)
            if outcome is Outcome.DISAGREED:
                tally.disagreements.append(describe(one, opinion, decision))
                print(tally.disagreements[-1], flush=True)
    stage.take_down()
