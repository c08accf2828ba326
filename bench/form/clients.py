"""Users whose forms are open: each has their own cookies, and asks as the form's script does (templates/live.js)."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp

from devcluster.errors import DevclusterError

LEAST_S = 10.0
"""After how many seconds a form asks for the first time, and today's page each time (templates/live.js)."""
REQUESTS_AT_ONCE = 8
TIMEOUT_S = 60
TAG = re.compile(r'"tag":"([0-9a-f]+)"')


@dataclass(slots=True)
class Tally:
    """An answer of the hub.

    :ivar sizes: bytes on the wire of each answer with news, its headers among them.
    :ivar unchanged: how many answers said that nothing is new.
    :ivar pauses_s: after how many seconds the hub wanted to be asked again.
    """

    sizes: list[int] = field(default_factory=list)
    unchanged: int = 0
    pauses_s: list[float] = field(default_factory=list)

    @property
    def answers(self) -> int:
        """Return how many answers there were."""
        return len(self.sizes) + self.unchanged


class Person:
    """A user who is logged in and has a form open.

    :param values: the picks in the form.
    """

    def __init__(self, url: str, name: str, *, values: dict[str, str], session: aiohttp.ClientSession) -> None:
        self._url = url
        self._name = name
        self._choice = json.dumps(values)
        self._session = session
        self._cookies: dict[str, str] = {}
        self._tag = ""

    async def log_in(self) -> None:
        """Log in."""
        async with self._session.get(f"{self._url}/hub/login") as answer:
            self._keep(answer)
        fields = {"username": self._name, "password": "x", "_xsrf": self._cookies["_xsrf"]}
        login = self._session.post(
            f"{self._url}/hub/login", data=fields, headers=self._headers(), allow_redirects=False
        )
        async with login as answer:
            self._keep(answer)
            if answer.status != HTTPStatus.FOUND:
                raise DevclusterError(f"{self._name} cannot log in: {answer.status}")

    async def open(self) -> None:
        """Open the form."""
        async with self._session.get(f"{self._url}/hub/spawn", headers=self._headers()) as answer:
            self._keep(answer)
            found = TAG.search(_unpacked(answer, await answer.read()).decode())
            if found is None:
                raise DevclusterError(f"{self._name} gets no form: {answer.status}")
            self._tag = found[1]

    async def ask_for_page(self, tally: Tally) -> float:
        """Ask as forms did before: the answer is the page."""
        headers = {**self._headers(), "Gpuspawner-Choice": self._choice}
        async with self._session.get(f"{self._url}/hub/spawn", headers=headers) as answer:
            body = await answer.read()
            if answer.status != HTTPStatus.OK or b"gpuspawner-data" not in body:
                raise DevclusterError(f"{self._name} gets no page: {answer.status}")
            tally.sizes.append(_weight(answer, body))
        return LEAST_S

    async def ask(self, tally: Tally) -> float:
        """Ask for what is new; return after how many seconds the form asks again."""
        headers = {
            **self._headers(),
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate, br",
            "Gpuspawner-Choice": self._choice,
            "If-None-Match": f'"{self._tag}"',
        }
        async with self._session.get(f"{self._url}/hub/spawn", headers=headers, allow_redirects=False) as answer:
            body = await answer.read()
            if answer.status == HTTPStatus.NOT_MODIFIED:
                tally.unchanged += 1
            elif answer.status == HTTPStatus.OK:
                json.loads(_unpacked(answer, body))
                tally.sizes.append(_weight(answer, body))
                self._tag = answer.headers["ETag"].strip('"')
            else:
                raise DevclusterError(f"{self._name} gets no data: {answer.status}")
            pause_s = float(answer.headers["Gpuspawner-Again"])
        tally.pauses_s.append(pause_s)
        return pause_s

    def _headers(self) -> dict[str, str]:
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}

    def _keep(self, answer: aiohttp.ClientResponse) -> None:
        self._cookies |= {name: each.value for name, each in answer.cookies.items()}


def _unpacked(answer: aiohttp.ClientResponse, body: bytes) -> bytes:
    return gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body


def _weight(answer: aiohttp.ClientResponse, body: bytes) -> int:
    """Return the bytes of an answer: status line, headers and body."""
    return (
        len("HTTP/1.1 200 OK\r\n\r\n")
        + sum(len(name) + len(value) + 4 for name, value in answer.raw_headers)
        + len(body)
    )


class Crowd:
    """All users with an open form.

    :param values: the picks of each of them.
    """

    def __init__(self, url: str, values: list[dict[str, str]]) -> None:
        self._url = url
        self._values = values
        self.people: list[Person] = []

    async def open(self) -> None:
        """Have all of them log in and open the form."""
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )
        self.people = [
            Person(self._url, f"person-{number}", values=values, session=self._session)
            for number, values in enumerate(self._values)
        ]
        gate = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def enter(person: Person) -> None:
            async with gate:
                await person.log_in()
                await person.open()

        await asyncio.gather(*map(enter, self.people))

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def ask_once(self, tally: Tally) -> None:
        """Let each form ask what is new."""
        gate = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def ask(person: Person) -> None:
            async with gate:
                await person.ask(tally)

        await asyncio.gather(*map(ask, self.people))

    async def keep_asking(self, tally: Any, *, ask: str, seconds: float) -> None:
        """Let all forms ask, the first time at any moment of the first ten seconds.

        :param tally: returns the tally that an answer belongs to.
        :param ask: name of the method of :class:`Person`.
        """
        dice = random.Random(1)  # noqa: S311 - the same in every run
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds

        async def keep(person: Person, first_s: float) -> None:
            at = loop.time() + first_s
            while at < end:
                await asyncio.sleep(max(0.0, at - loop.time()))
                pause_s = await getattr(person, ask)(tally())
                at = loop.time() + pause_s * (1 - 0.05 * dice.random())

        await asyncio.gather(*(keep(person, dice.random() * LEAST_S) for person in self.people))
