"""Many spawns in random fleets, each with a verdict just before it, compared and counted."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.api import Api
from bench.fit.draw import Draw
from bench.result import Result
from bench.truth import facts
from bench.truth.facts import View
from bench.truth.fleet import Change, Fleet, draw_changes, draw_fleet, draw_options
from bench.truth.judge import Event, Fate, Fault, Said, find_faults, find_faults_alone, is_hedged, is_worth_trying
from bench.truth.ours import Ours, Statement, opened
from bench.truth.queue_facts import summarize_queue
from bench.truth.queues import find_queue_name
from bench.truth.stage import Stage
from bench.truth.vocabulary import NAMESPACE, machines
from devcluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.hub_rbac import ensure_namespace
from gpuspawner.core.verdict.verdict import Outcome
from tests.cluster.support.karpenter import running_karpenter
from tests.cluster.support.kueue import installed_kueue

SPAWNS = 2000
SPAWNS_PER_FLEET = 50
SETTLE_TRIES = 20
LATER = (Outcome.WAITS, Outcome.AFTER_SCALE_UP)
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
KUEUE_SETTINGS = {
    "managedJobsNamespaceSelector": {
        "matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "In", "values": [NAMESPACE]}]
    }
}
"""Pods of other namespaces never meet Kueue's webhook. The webhook leaves pods without its label as they are."""
BUDGETS = {
    "now_not_started_percent": 0.5,
    "never_started": 0,
    "new_node_refused": 0,
    "wrong_reason_percent": 1,
    "wrong_place": 0,
}


@dataclass(slots=True)
class Tally:
    """The results of the spawns so far.

    :param outcomes: verdicts by outcome.
    :param fates: the fates of the pods.
    :param faults: the faults, by kind.
    :param hedged: how often no node came where none was promised for sure.
    :param unseen: the fates of the pods in fleets of whose autoscaler the hub sees nothing.
    :param with_gpus: how many spawns asked for GPUs, which the sum of free ones is compared with.
    :param revisited: how many pods that waited were tried alone.
    :param unknown: reasons of the verdict ``unknown``.
    :param queued: verdicts by outcome, of servers that Kueue queues.
    :param decided: those of them that the queue decides, not the nodes.
    :param found: everything that was wrong with our verdicts, with its circumstances.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    fates: Counter[Fate] = field(default_factory=Counter)
    faults: Counter[Fault] = field(default_factory=Counter)
    hedged: int = 0
    unseen: Counter[Fate] = field(default_factory=Counter)
    with_gpus: int = 0
    revisited: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    queued: Counter[Outcome] = field(default_factory=Counter)
    decided: Counter[Outcome] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    @property
    def spawns(self) -> int:
        """Return how many there are."""
        return self.outcomes.total()

    def blame(self, fault: Fault, text: str) -> None:
        """Count and print something that was wrong."""
        self.faults[fault] += 1
        if fault is not Fault.PEER:
            self.found.append(f"{fault}: {text}")
            print(f"truth: WRONG: {self.found[-1]}", flush=True)


def measure(*, spawns: int = SPAWNS, seed: int | None = None) -> Result:
    """Start a cluster with Karpenter and Kueue, spawn in the fleets ``seed``, ``seed + 1`` and so on, and stop all.

    :param seed: None for fleets that were never drawn before.
    """
    if seed is None:
        seed = secrets.randbelow(10**8)
    print(f"truth: {spawns} spawns, {SPAWNS_PER_FLEET} in each fleet, seed {seed}", flush=True)
    tally = Tally()
    began = time.monotonic()
    with ExitStack() as started:
        name = f"truth-{os.getpid()}"
        started.callback(Cluster.remove, name)
        cluster = Cluster.up(name=name, report=print)
        connected = started.enter_context(cluster.api_client())
        folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="gpuspawner-truth-")))
        started.enter_context(running_karpenter(cluster, connected, folder, machines=machines()))
        ensure_namespace(connected, NAMESPACE)
        started.enter_context(installed_kueue(cluster, connected, namespace=NAMESPACE, settings=KUEUE_SETTINGS))
        server = urlsplit(cluster.server)
        address = (str(server.hostname), int(server.port or 0))
        stage = Stage(started.enter_context(closing(Api(address, folder=cluster.run_dir / "pki"))))
        stage.prepare(real_node=cluster.real_node)
        asyncio.run(_play_all(stage, tally, kubeconfig=cluster.kubeconfig, spawns=spawns, seed=seed))
    return make_result(tally, unsettled=stage.unsettled, seed=seed, took_s=time.monotonic() - began)


def make_result(tally: Tally, *, unsettled: int, seed: int, took_s: float) -> Result:
    """Return the figures of a run."""
    outcomes, faults = tally.outcomes, tally.faults
    later = sum(outcomes[each] for each in LATER)
    return Result(
        name="truth",
        values={
            "spawns": tally.spawns,
            **{f"said_{outcome.value.replace('-', '_')}": outcomes[outcome] for outcome in Outcome},
            "started": tally.fates[Fate.STARTED],
            "started_on_new_node": tally.fates[Fate.NEW_NODE],
            "now_not_started_percent": _percent(faults[Fault.NOT_NOW], outcomes[Outcome.NOW]),
            "never_started": faults[Fault.NOT_NEVER],
            "new_node_refused": faults[Fault.REFUSED_NEW_NODE],
            "autoscaler_unseen": tally.unseen.total(),
            "autoscaler_unseen_new_node": tally.unseen[Fate.NEW_NODE],
            "wrong_reason_percent": _percent(faults[Fault.REASON], later),
            "wrong_place": faults[Fault.PLACE],
            "hedged_without_node_percent": _percent(tally.hedged, outcomes[Outcome.AFTER_SCALE_UP]),
            "unknown_percent": _percent(outcomes[Outcome.UNKNOWN], tally.spawns),
            "queued": tally.queued.total(),
            "queued_unknown_percent": _percent(tally.queued[Outcome.UNKNOWN], tally.queued.total()),
            "sum_of_free_wrong_percent": _percent(faults[Fault.PEER], tally.with_gpus),
            "tried_alone": tally.revisited,
            "unsettled": unsettled,
            "took_s": took_s,
            "seed": seed,
        },
        budgets=BUDGETS,
        details={
            "wrong": tally.found,
            "unknown": dict(tally.unknown.most_common()),
            "queued": {outcome.value: number for outcome, number in tally.queued.most_common()},
            "decided_by_queue": {outcome.value: number for outcome, number in tally.decided.most_common()},
        },
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


async def _play_all(stage: Stage, tally: Tally, *, kubeconfig: Path, spawns: int, seed: int) -> None:
    began = time.monotonic()
    async with opened(kubeconfig) as ours:
        number = seed
        while tally.spawns < spawns:
            fleet = draw_fleet(number)
            await _Play(stage, ours, fleet=fleet, tally=tally).run(min(SPAWNS_PER_FLEET, spawns - tally.spawns))
            took_s = time.monotonic() - began
            left_s = took_s / tally.spawns * (spawns - tally.spawns)
            counts = ", ".join(f"{fault} {number}" for fault, number in sorted(tally.faults.items()))
            said = ", ".join(f"{outcome} {number}" for outcome, number in sorted(tally.outcomes.items()))
            print(
                f"truth: {tally.spawns}/{spawns} in {took_s:.0f} s, about {left_s:.0f} s to go; {said}; "
                f"wrong: {counts or 'nothing'}",
                flush=True,
            )
            number += 1


class _Play:
    """One fleet from its beginning to its end."""

    def __init__(self, stage: Stage, ours: Ours, *, fleet: Fleet, tally: Tally) -> None:
        self._stage = stage
        self._ours = ours
        self._fleet = fleet
        self._tally = tally
        self._draw = Draw(f"truth-spawns-{fleet.seed}")
        self._waiting: list[tuple[str, Said, Statement]] = []
        self._never: dict[str, str] = {}
        """Name of each pod that waits and never starts, as the verdict said → its spawn, for people."""

    async def run(self, spawns: int) -> None:
        """Spawn so many times."""
        await self._stage.put_up(self._fleet)
        for number in range(spawns):
            for change in self._draw_changes(await self._settle()):
                self._stage.change(change)
            await self._spawn(number, await self._settle())
        await self._revisit()
        await self._stage.take_down(self._fleet)

    async def _settle(self) -> View:
        """Return the cluster at rest, as the API server and our store both know it."""
        for _ in range(SETTLE_TRIES):
            view = await self._stage.settle(self._fleet)
            if await self._ours.has_seen(view):
                self._check_never(view)
                return view
        raise DevclusterError("our store does not get to know the cluster")

    def _check_never(self, view: View) -> None:
        for pod in view.pods:
            if pod["spec"].get("nodeName") and (title := self._never.pop(pod["metadata"]["name"], "")):
                self._tally.blame(Fault.NOT_NEVER, f"{title}: it started later on {pod['spec']['nodeName']}")
                self._waiting = [each for each in self._waiting if each[0] != title]

    def _draw_changes(self, view: View) -> list[Change]:
        own = {node["metadata"]["name"] for node in self._fleet.nodes}
        return draw_changes(
            self._draw,
            pods=[pod["metadata"]["name"] for pod in view.pods if pod["metadata"]["namespace"] == NAMESPACE],
            cordoned={
                node["metadata"]["name"]: bool(node["spec"].get("unschedulable"))
                for node in view.nodes
                if node["metadata"]["name"] in own
            },
        )

    async def _spawn(self, number: int, view: View) -> None:
        fleet, tally = self._fleet, self._tally
        offered = await self._ours.offered(fleet.settings, products=fleet.products)
        options = draw_options(self._draw, offered)
        await self._stage.wait_for_next_second(view)
        sees_pools = not fleet.hides_pools
        statement = await self._ours.say(fleet.settings, f"user-{number}", options=options, sees_pools=sees_pools)
        verdict = statement.verdict
        said = Said(
            verdict=verdict,
            pod=self._stage.admit(statement.manifest),
            labels=statement.labels,
            count=int(options.get("gpu_count", 0)),
            sees_pools=sees_pools,
        )
        self._stage.create(statement.manifest)
        name = statement.manifest["metadata"]["name"]
        event = await self._stage.follow(name, view=view, fleet=fleet, is_now=verdict.outcome is Outcome.NOW)
        tally.outcomes[verdict.outcome] += 1
        tally.fates[event.fate] += 1
        tally.unseen[event.fate] += fleet.hides_pools
        tally.hedged += is_hedged(said, event)
        tally.with_gpus += bool(said.count)
        if verdict.outcome is Outcome.UNKNOWN:
            tally.unknown[verdict.reason] += 1
        if find_queue_name(statement.manifest):
            tally.queued[verdict.outcome] += 1
            tally.decided[verdict.outcome] += verdict.is_queued
        seen = replace(view, pools=()) if fleet.hides_pools else view
        faults = list(find_faults(said, event, seen))
        for fault, why in faults:
            tally.blame(fault, f"{why}\n  {self._describe(number, options, said=said, event=event, view=view)}")
        # A verdict is wrong only once, so one that is known to be wrong is not looked at again.
        if event.fate is Fate.WAITED and all(fault is Fault.PEER for fault, _ in faults):
            title = f"fleet {fleet.seed}, spawn {number}, {options}, {verdict}"
            self._waiting.append((title, said, statement))
            if verdict.outcome is Outcome.NEVER:
                self._never[name] = title

    async def _revisit(self) -> None:
        """Try each pod that waited alone in the empty fleet: who waits has to have somewhere to go, ``never`` has not.

        A pod that only a new node could take is left out.
        """
        view = await self._stage.empty(self._fleet)
        for title, said, statement in self._waiting:
            if not is_worth_trying(said, view):
                continue
            self._tally.revisited += 1
            pod = await self._stage.try_alone(statement.manifest, self._fleet)
            for fault, why in find_faults_alone(said.verdict, pod, view):
                self._tally.blame(fault, f"{title}: {why}")

    def _describe(self, number: int, options: object, *, said: Said, event: Event, view: View) -> str:
        """Return everything about a spawn, for a reader: how to see it again, and the cluster before it."""
        seed = self._fleet.seed
        lines = [
            f"fleet {seed}, spawn {number}: python -m bench truth --seed {seed} --spawns {SPAWNS_PER_FLEET}",
            f"choice: {options}",
            f"said: {said.verdict}",
            f"happened: {event}",
            *(f"waiting: {facts.summarize_pod(pod)}" for pod in view.waiting()),
            *(f"node: {line}" for line in facts.summarize_nodes(view, event.pod or said.pod)),
            *(f"queue: {line}" for line in (summarize_queue(view.queue) if view.queue else ())),
        ]
        return "\n  ".join(lines)
