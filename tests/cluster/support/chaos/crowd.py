"""Users who start, cancel and stop servers at random while the cluster fails, and the end of each server."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any

from tests.cluster.support.chaos.ledger import Ledger, Promise
from tests.cluster.support.storm.claims import Server
from tests.cluster.support.storm.counter import PodCounter
from tests.cluster.support.storm.people import Answer, NoAnswerError, People
from tests.cluster.support.storm.rules import Rules
from tests.cluster.support.storm.world import Choice, draw_choice

AT_ONCE = 24
"""Two cores run the cluster and the hub as well."""
POLL_S = 1.0
PAUSE_S = 4.0
NOTICED_S = 60.0
"""JupyterHub polls each server every 30 s (``Spawner.poll_interval``); a watch that was cut off adds to that."""
POD_SEEN_S = 10.0
"""How soon the test sees a pod that there is."""
START_TIMEOUT_S = 45.0
LOOKS = round((START_TIMEOUT_S + 90.0) / POLL_S)
"""How often a hub may answer that a start or stop is pending: the start's own limit, and an API server that is late."""
EARLY_S = 5.0
"""How long before its limit a start may be given up for the time."""
WAITING_S = 10.0
"""A pod that has been there for so long without its server being ready waits for something."""
MODESTY = 0.8
CURIOUS = 0.3
FICKLE = 0.15
BY_FORM = 0.3
UNEXPLAINED = ("Spawn failed", "Spawn failed:", "")


@dataclass(slots=True, kw_only=True)
class Start:
    """One start; times are monotonic, in seconds.

    :param accepted: the hub said that the server is on its way.
    :param cancels_at: when the user has had enough.
    :param left_uid: of a pod that an earlier start of this server has left, empty without one.
    :param uid: of its own pod, empty before there is one; ``pod_at`` is when it was first seen.
    :param kills: the uid of its pod each time the hub was killed or ended, empty before there was one.
    """

    server: Server
    choice: Choice
    asked_at: float
    left_uid: str
    cancels_at: float = math.inf
    accepted: bool = False
    is_cancelled: bool = False
    uid: str = ""
    pod_at: float = math.inf
    kills: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Crowd:
    """All users.

    :param servers: all users' servers, those that run and those that do not.
    :param own_image: an image that users name themselves.
    :param struck: uids of pods that were on a node that was deleted: they may end.
    :param running: server → uid of its pod.
    :param excused: servers whose volume claim may be left: they had a pod, their start was cancelled, or hub or API
        server were away meanwhile.
    """

    people: People
    counter: PodCounter
    random: Random
    servers: list[Server]
    own_image: str
    rules: Rules
    ledger: Ledger
    struck: set[str]
    is_hub_there: asyncio.Event
    running: dict[Server, str] = field(default_factory=dict)
    excused: set[Server] = field(default_factory=set)
    _starts: dict[Server, Start] = field(default_factory=dict)

    async def rage(self, until: float) -> None:
        """Act until a moment (monotonic seconds), and then bring what was begun to its end."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._act(until))

    def note_end_of_hub(self) -> None:
        """Note for each start under way what a hub that ends now leaves of it."""
        for start in self._starts.values():
            self._find_pod(start)
            start.kills.append(start.uid)
            if not start.uid:
                self.excused.add(start.server)

    async def watch(self, until: float) -> None:
        """Note, until a moment (monotonic seconds), each server that ran and has no longer its pod."""
        while time.monotonic() < until:
            self._look_at_running()
            await asyncio.sleep(POLL_S)

    async def settle(self, within_s: float) -> None:
        """Wait until there are no pods but of servers that run, for so long at most."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and self.counter.servers != self.running.keys():
            self._look_at_running()
            await asyncio.sleep(POLL_S)

    def _look_at_running(self) -> None:
        for server, uid in list(self.running.items()):
            pod = self.counter.find(server)
            if pod is None or pod.uid != uid:
                self._lose(server, "its pod is gone" if pod is None else "it has another pod")

    async def calm(self) -> None:
        """See that exactly those servers run that should, that each answers, and stop them."""
        ready = await self._read_ready()
        for server in set(self.running) - ready:
            self._lose(server, "the hub does not know that it runs")
        for server in ready - self.running.keys():
            self.ledger.breach(Promise.SERVERS, "it runs, and its page said that it does not", server=server)
        for server in {pod.server for pod in self.counter.pods if pod.uid not in self.struck} - ready:
            self.ledger.breach(Promise.PODS, "its pod is left, and the hub does not know it", server=server)
        for server in list(self.running):
            if not await self.people.opens(*server):
                self._lose(server, "it does not answer")
        await asyncio.gather(*(self._stop(server) for server in list(self.running)))

    async def _read_ready(self) -> set[Server]:
        """Return the servers that the hub says are ready, once it has looked at those whose pod has been lost."""
        ready = await self.people.ready_servers()
        for _ in range(round(NOTICED_S / POLL_S)):
            if ready <= self.running.keys():
                break
            await asyncio.sleep(POLL_S)
            ready = await self.people.ready_servers()
        return ready

    async def _act(self, until: float) -> None:
        while time.monotonic() < until:
            await self.is_hub_there.wait()
            server = self.servers.pop(self.random.randrange(len(self.servers)))
            try:
                await (self._stop(server) if server in self.running else self._start(server))
            finally:
                self.servers.append(server)
            await asyncio.sleep(self.random.random() * PAUSE_S)

    async def _start(self, server: Server) -> None:
        choice = self._draw(server)
        left = self.counter.find(server)
        start = Start(server=server, choice=choice, asked_at=time.monotonic(), left_uid=left.uid if left else "")
        self._starts[server] = start
        if self.random.random() < FICKLE:
            start.cancels_at = start.asked_at + self.random.random() * START_TIMEOUT_S / 2
        self.ledger.note(f"asks for {choice}", server=server)
        try:
            answer = await self._ask(server, choice)
        except NoAnswerError:
            self.ledger.note("was not answered", server=server)
            self.ledger.done["not answered"] += 1
            await self._follow(start)
        else:
            start.accepted = not answer.is_refusal
            self.ledger.note(f"is answered {answer.status} {answer.told if answer.is_refusal else ''}", server=server)
            await (self._follow(start) if start.accepted else self._note_refusal(start, answer))
        finally:
            self._find_pod(start)
            del self._starts[server]

    def _draw(self, server: Server) -> Choice:
        """Draw a choice; most users ask for what they might have."""
        choice = draw_choice(self.random)
        while self.random.random() < MODESTY and self.rules.denials(server[0], choice):
            choice = draw_choice(self.random)
        return choice

    async def _ask(self, server: Server, choice: Choice) -> Answer:
        if self.random.random() >= BY_FORM:
            return await self.people.ask_by_rest(*server, options=choice.options(own_image=self.own_image))
        if self.random.random() < CURIOUS:
            await self.people.open_form(*server)
        fields = choice.fields(own_image=self.own_image)
        return await self.people.ask_by_form(*server, fields=fields, sender=server[0])

    async def _note_refusal(self, start: Start, answer: Answer) -> None:
        self._excuse_outage(start)
        self.ledger.done[f"refused with {answer.status}"] += 1
        if not answer.told:
            self.ledger.breach(Promise.REASONS, f"it was refused without a word: {answer}", server=start.server)

    async def _follow(self, start: Start) -> None:
        """Ask the hub, whichever there is, until it is done with a start."""
        for _ in range(LOOKS):
            state = await self._state(start.server)
            self._find_pod(start)
            if state.get("ready"):
                await self._note_ready(start)
                return
            if not state.get("pending"):
                await self._note_end(start)
                return
            start.accepted = True
            if time.monotonic() > start.cancels_at and not start.is_cancelled:
                await self._cancel(start)
            await asyncio.sleep(POLL_S)
        took_s = time.monotonic() - start.asked_at
        self.ledger.breach(Promise.SERVERS, f"its start is still pending after {took_s:.0f} s", server=start.server)

    async def _cancel(self, start: Start) -> None:
        # Even without an answer: the hub may have been killed after it had begun to stop the server.
        start.is_cancelled = True
        self.excused.add(start.server)
        self.ledger.done["cancelled"] += 1
        self.ledger.note("cancels", server=start.server)
        try:
            await self.people.stop(*start.server)
        except NoAnswerError:
            self.ledger.note("is not answered", server=start.server)

    async def _note_ready(self, start: Start) -> None:
        server, deadline = start.server, time.monotonic() + POD_SEEN_S
        while (pod := self.counter.find(server)) is None and time.monotonic() < deadline:  # noqa: ASYNC110 - a thread sees it
            await asyncio.sleep(POLL_S)
        if pod is None:
            self.ledger.breach(Promise.SERVERS, "the hub says that it runs, and there is no pod", server=server)
            await self._ask_to_stop(server)
            return
        before = next((uid for uid in start.kills if uid), pod.uid)
        if before != pod.uid and before not in self.struck:
            self.ledger.breach(Promise.SERVERS, "it got another pod when the hub was killed", server=server)
        self.running[server] = pod.uid
        self.ledger.done["ready after a kill" if start.kills else "ready"] += 1
        self.ledger.note(f"is ready, in pod {pod.uid}", server=server)

    async def _note_end(self, start: Start) -> None:
        """Judge the end of a start whose server is not ready."""
        self._excuse_outage(start)
        hubs = len(start.kills)
        try:
            told = await self.people.read_end(*start.server)
        except NoAnswerError:
            told = None
        if start.is_cancelled or start.uid in self.struck:
            return
        took_s = time.monotonic() - start.asked_at
        self.ledger.done["ended"] += 1
        self.ledger.note(f"has ended after {took_s:.0f} s: {told!r}", server=start.server)
        if start.accepted and told in UNEXPLAINED and len(start.kills) == hubs:
            text = f"its start ended after {took_s:.0f} s without a reason"
            self.ledger.breach(Promise.REASONS, text, server=start.server)
        if self._is_waiting_lost(start, took_s=took_s):
            text = f"its pod waited, and its start was ended after {took_s:.0f} s, told {told!r}"
            self.ledger.breach(Promise.SERVERS, text, server=start.server)

    def _is_waiting_lost(self, start: Start, *, took_s: float) -> bool:
        """Tell whether a start was ended that had its pod, and nothing that happened was reason enough."""
        if took_s > START_TIMEOUT_S - EARLY_S or not start.uid:
            return False
        if any(start.kills):
            return True
        is_made_in_peace = not self.ledger.had_outage(start.asked_at, start.pod_at + WAITING_S)
        return time.monotonic() - start.pod_at > WAITING_S and is_made_in_peace

    async def _stop(self, server: Server) -> None:
        uid = self.running[server]
        state = await self._state(server)
        if server not in self.running:
            return
        if not state.get("ready") and not state.get("pending"):
            self._lose(server, f"the hub says that it does not run, but {state}")
            return
        del self.running[server]
        self.ledger.note("stops", server=server)
        began = time.monotonic()
        for _ in range(LOOKS):
            if state.get("ready"):
                await self._ask_to_stop(server)
            elif not state.get("pending"):
                self.ledger.done["stopped"] += 1
                return
            await asyncio.sleep(POLL_S)
            state = await self._state(server)
        if uid not in self.struck:
            text = f"its stop is not over after {time.monotonic() - began:.0f} s: {state}"
            self.ledger.breach(Promise.SERVERS, text, server=server)

    async def _ask_to_stop(self, server: Server) -> None:
        try:
            answer = await self.people.stop(*server)
        except NoAnswerError:
            return
        if answer.status not in {HTTPStatus.NO_CONTENT, HTTPStatus.ACCEPTED}:
            self.ledger.note(f"cannot be stopped: {answer}", server=server)

    async def _state(self, server: Server) -> Mapping[str, Any]:
        """Return what the hub says of a server, the next one where this one goes away."""
        while True:
            await self.is_hub_there.wait()
            try:
                return await self.people.state(*server)
            except NoAnswerError:
                await asyncio.sleep(POLL_S)

    def _excuse_outage(self, start: Start) -> None:
        """Expect no volume claim to be taken back where the API server could not be asked to."""
        if self.ledger.had_outage(start.asked_at, time.monotonic()):
            self.excused.add(start.server)

    def _find_pod(self, start: Start) -> None:
        pod = self.counter.find(start.server)
        if pod is not None and pod.uid not in {start.uid, start.left_uid}:
            start.uid, start.pod_at = pod.uid, time.monotonic()
            self.excused.add(start.server)

    def _lose(self, server: Server, why: str) -> None:
        uid = self.running.pop(server)
        if uid in self.struck:
            self.ledger.note(f"is lost with its node: {why}", server=server)
        else:
            self.ledger.breach(Promise.SERVERS, f"it ran, in pod {uid}, and {why}", server=server)
