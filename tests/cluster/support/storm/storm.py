"""All users start and stop servers at random, all at once, and the hub is killed in the middle of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random

from tests.cluster.support.storm.claims import Claim, Claims, Server
from tests.cluster.support.storm.counter import PodCounter
from tests.cluster.support.storm.people import Answer, NoAnswerError, People
from tests.cluster.support.storm.rules import Rules
from tests.cluster.support.storm.world import Choice, draw_choice

AT_ONCE = 24
POLL_S = 0.5
PATIENCE_S = 60.0
POD_SEEN_S = 10.0
"""How long the counter may need to see a pod that the hub calls ready."""
ADMIN = "root"
MODESTY = 0.8
FICKLE = 0.05
"""How often users stop a server that they have just requested, and that has not started yet."""
SECOND_THOUGHTS_S = 0.5
ADMINS = 0.05
"""How often an admin sends the form for a user."""


@dataclass(slots=True, kw_only=True)
class Storm:
    """One storm.

    :param servers: all users' servers, those that run and those that do not.
    :param visitors: those who use the form; all others use the REST API.
    :param own_image: an image that users name themselves.
    :param running: server → the claim it runs by.
    :param adrift: server → its claim, where a pod was left by a hub that was killed while it made or deleted it.
    """

    people: People
    counter: PodCounter
    random: Random
    servers: list[Server]
    visitors: frozenset[str]
    own_image: str
    rules: Rules
    claims: Claims
    running: dict[Server, Claim] = field(default_factory=dict)
    adrift: dict[Server, Claim] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    _idle: list[Server] = field(default_factory=list)
    _is_hub_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def rage(self, requests: int, *, restart: Callable[[], Awaitable[None]]) -> None:
        """Send so many requests, with a new hub after half of them."""
        self._idle = list(self.servers)
        self._is_hub_there.set()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._act(requests))
            await self._until_sent(requests // 2)
            survivors = dict(self.running)
            before = {server: self.counter.uids[server] for server in survivors}
            self._is_hub_there.clear()
            await restart()
            self._is_hub_there.set()
        for server, claim in survivors.items():
            is_left_alone = claim.ends_since == math.inf
            if is_left_alone and self.counter.uids[server] != before[server]:
                self.lost.append(f"{server} got another pod when the hub was killed")

    @property
    def sent(self) -> int:
        return self.done["starts"] + self.done["stops"]

    async def calm(self) -> None:
        """See that all servers run that should, and stop them."""
        ready = await self.people.ready_servers()
        self.lost += [f"{server} should run, and does not" for server in self.running.keys() - ready]
        self.lost += [f"{server} should not run, and does" for server in ready - self.running.keys()]
        await self._each(list(self.running), self._look)
        await self._each(list(self.adrift), self._take_over)
        await self._each(list(self.running), self._stop)

    async def _act(self, requests: int) -> None:
        while self.sent < requests:
            await self._is_hub_there.wait()
            server = self._idle.pop(self.random.randrange(len(self._idle)))
            if server in self.running:
                self.done["stops"] += 1
                await self._stop(server)
            elif self.random.random() < FICKLE:
                self.done["starts"] += 1
                self.done["stops"] += 1
                await self._start_and_stop(server, self._draw(server))
            else:
                self.done["starts"] += 1
                await self._start(server, self._draw(server))
            self._idle.append(server)

    def _draw(self, server: Server) -> Choice:
        """Draw a choice; most users ask for what they might have, with some luck."""
        choice = draw_choice(self.random)
        while self.random.random() < MODESTY and self.rules.denials(server[0], choice):
            choice = draw_choice(self.random)
        return choice

    async def _start(self, server: Server, choice: Choice) -> None:
        claim = Claim(server=server, choice=choice, sent=time.monotonic())
        self.claims.add(claim)
        try:
            answer = await self._ask(server, choice)
            if answer.is_refusal:
                if answer.status != HTTPStatus.FORBIDDEN:
                    self.lost.append(f"{server} was not refused, but {answer}")
                self._refuse(claim, answer.told)
                return
            # Otherwise it is on its way.
            is_ready = answer.status == HTTPStatus.CREATED or await self._settles(server)
        except NoAnswerError:
            await self._find(claim)
            return
        if is_ready:
            await self._runs(claim)
        else:
            self._refuse(claim, "(after the hub had said yes)")

    async def _start_and_stop(self, server: Server, choice: Choice) -> None:
        """Ask for a server, and stop it in the next moment, wherever the hub is with it."""
        claim = Claim(server=server, choice=choice, sent=time.monotonic())
        self.claims.add(claim)
        asking = asyncio.create_task(self._ask(server, choice))
        try:
            await asyncio.sleep(self.random.random() * SECOND_THOUGHTS_S)
            await self.people.stop(*server)
            answer = await asking
            is_ready = await self._settles(server)
        except NoAnswerError:
            await asyncio.gather(asking, return_exceptions=True)
            await self._find(claim)
            return
        if answer.status == HTTPStatus.FORBIDDEN:
            self._refuse(claim, answer.told)
        elif is_ready:
            await self._runs(claim)
        else:
            self.done["cut off"] += 1
            claim.gone_at = time.monotonic()

    async def _ask(self, server: Server, choice: Choice) -> Answer:
        user, name = server
        sender = ADMIN if self.random.random() < ADMINS else user if user in self.visitors else ""
        self.done["by form" if sender else "by REST"] += 1
        if sender:
            fields = choice.fields(own_image=self.own_image)
            answer = await self.people.ask_by_form(user, name, fields=fields, sender=sender)
        else:
            answer = await self.people.ask_by_rest(user, name, options=choice.options(own_image=self.own_image))
        self.done[f"answered {answer.status}"] += 1
        return answer

    async def _stop(self, server: Server) -> None:
        claim = self.running.pop(server)
        claim.ends_since = time.monotonic()
        try:
            answer = await self.people.stop(*server)
            if answer.is_refusal:
                self.lost.append(f"{server} could not be stopped: {answer}")
            elif answer.status != HTTPStatus.NO_CONTENT and await self._settles(server):
                self.lost.append(f"{server} did not stop")
            claim.gone_at = time.monotonic()
        except NoAnswerError:
            await self._find(claim)

    async def _settles(self, server: Server) -> bool:
        """Wait until the hub is done with a server, and tell whether it runs."""
        deadline = time.monotonic() + PATIENCE_S
        while (state := await self.people.state(*server)).get("pending"):
            if time.monotonic() > deadline:
                self.lost.append(f"{server} is still {state} after {PATIENCE_S} s")
                return False
            await asyncio.sleep(POLL_S)
        return bool(state.get("ready"))

    async def _find(self, claim: Claim) -> None:
        """Find out from the next hub whether a request without an answer had an effect."""
        self.done["unanswered"] += 1
        await asyncio.sleep(POLL_S)
        await self._is_hub_there.wait()
        if await self._settles(claim.server):
            await self._runs(claim)
        elif claim.server in self.counter.servers:
            # The hub that made it knows it no more; it holds what it holds until its user starts this server again.
            self.adrift[claim.server] = claim
        else:
            claim.gone_at = time.monotonic()

    def _refuse(self, claim: Claim, told: str) -> None:
        claim.refusal = told or "(nothing)"
        claim.gone_at = time.monotonic()
        self.done["refused"] += 1

    async def _runs(self, claim: Claim) -> None:
        claim.runs_since = time.monotonic()
        claim.ends_since = math.inf
        self.running[claim.server] = claim
        if before := self.adrift.pop(claim.server, None):
            before.gone_at = claim.runs_since
        # The counter reads a watch of its own, which may be behind that of the hub.
        deadline = time.monotonic() + POD_SEEN_S
        while claim.server not in self.counter.servers:
            if time.monotonic() > deadline:
                self.lost.append(f"{claim.server} is ready, and has no pod")
                return
            await asyncio.sleep(POLL_S)

    async def _look(self, server: Server) -> None:
        if not await self.people.opens(*server):
            self.lost.append(f"{server} does not answer")

    async def _take_over(self, server: Server) -> None:
        """Start a server again whose pod was left behind; what it had may always be had again."""
        await self._start(server, self.adrift[server].choice)
        if server not in self.running:
            self.lost.append(f"{server} was left behind and does not start again")

    async def _each(self, servers: list[Server], act: Callable[[Server], Awaitable[None]]) -> None:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def one(server: Server) -> None:
            async with at_once:
                await act(server)

        await asyncio.gather(*map(one, servers))

    async def _until_sent(self, requests: int) -> None:
        while self.sent < requests:  # noqa: ASYNC110 - looked at a few times a second
            await asyncio.sleep(POLL_S)
