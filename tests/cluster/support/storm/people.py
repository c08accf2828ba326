"""People who ask a hub for servers, by form and by REST, many at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp
from bs4 import BeautifulSoup

TIMEOUT = aiohttp.ClientTimeout(total=60)
NO_HUB = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
UNANSWERED = (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError)


class NoAnswerError(Exception):
    """There is no hub, or it went away before it answered: the outcome of the request is not known."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the hub.

    :param told: the message that users see, empty where nothing went wrong.
    """

    status: int
    told: str = ""

    @property
    def is_refusal(self) -> bool:
        return self.status >= HTTPStatus.BAD_REQUEST


@dataclass(slots=True)
class People:
    """All users' browsers, and a program that has a service's token.

    :param url: address of the hub, without a slash at the end.
    """

    url: str
    token: str
    _program: aiohttp.ClientSession
    _browsers: dict[str, aiohttp.ClientSession] = field(default_factory=dict)
    _at_login: dict[str, asyncio.Lock] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    async def ask_by_form(self, user: str, server: str, *, fields: Mapping[str, str], sender: str) -> Answer:
        """Send the form for a server.

        :param sender: whose browser sends it: the user's, or an admin's.
        """
        browser = await self._logged_in(sender)
        path = f"/hub/spawn/{quote(user)}" + (f"/{quote(server)}" if server else "")
        body = {**fields, "_xsrf": self._xsrf(browser)}
        status, text = await self._send(browser, "POST", path, data=body)
        if status == HTTPStatus.FOUND:
            return Answer(status)
        error = BeautifulSoup(text, "html.parser").select_one(".spawn-error-msg, .text-danger, .error")
        return Answer(status, " ".join(error.get_text(" ").split()) if error else text[:500])

    async def open_form(self, user: str, server: str) -> Answer:
        """Open the form for a server in the user's browser, without sending it."""
        browser = await self._logged_in(user)
        path = f"/hub/spawn/{quote(user)}" + (f"/{quote(server)}" if server else "")
        status, _ = await self._send(browser, "GET", path)
        return Answer(status)

    async def read_end(self, user: str, server: str) -> str:
        """Return the message about a start that has ended, on its page or else on the hub's home page."""
        status, text = await self._send(self._program, "GET", f"{_api(user, server)}/progress")
        if status == HTTPStatus.OK:
            events = [json.loads(line.removeprefix("data:")) for line in text.splitlines() if line.startswith("data:")]
            return str(events[-1].get("message", "")) if events else ""
        _, page = await self._send(await self._logged_in(user), "GET", "/hub/home")
        return " ".join(each.get_text(" ") for each in BeautifulSoup(page, "html.parser").select(".announcement"))

    async def ask_by_rest(self, user: str, server: str, *, options: Mapping[str, object]) -> Answer:
        status, text = await self._send(self._program, "POST", _api(user, server), json=dict(options))
        return Answer(status, text)

    async def stop(self, user: str, server: str) -> Answer:
        status, text = await self._send(self._program, "DELETE", _api(user, server))
        return Answer(status, text)

    async def state(self, user: str, server: str) -> dict[str, Any]:
        """Return what the hub says of a server, empty where it does not know it."""
        url = f"{self.url}/hub/api/users/{quote(user)}?include_stopped_servers"
        try:
            async with self._program.get(url) as answer:
                if answer.status != HTTPStatus.OK:
                    raise NoAnswerError
                return dict((await answer.json())["servers"].get(server, {}))
        except UNANSWERED as error:
            raise NoAnswerError from error

    async def ready_servers(self) -> set[tuple[str, str]]:
        """Return the servers that the hub says are ready, as names of user and server."""
        async with self._program.get(f"{self.url}/hub/api/users?limit=1000&state=active") as answer:
            users = await answer.json()
        return {(user["name"], name) for user in users for name, server in user["servers"].items() if server["ready"]}

    async def opens(self, user: str, server: str) -> bool:
        """Tell whether a server answers at its own address, through the proxy."""
        path = f"/user/{quote(user)}/{quote(server)}".rstrip("/")
        async with self._program.get(f"{self.url}{path}/api") as answer:
            return answer.status == HTTPStatus.OK and "version" in await answer.json()

    async def _logged_in(self, user: str) -> aiohttp.ClientSession:
        if user not in self._browsers:
            self._browsers[user] = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=TIMEOUT)
        browser = self._browsers[user]
        # A login changes the token that forms carry; what another tab was about to send would be refused.
        async with self._at_login.setdefault(user, asyncio.Lock()):
            if user not in self._known:
                await self._log_in(browser, user)
                self._known.add(user)
        return browser

    async def _log_in(self, browser: aiohttp.ClientSession, user: str) -> None:
        await self._send(browser, "GET", "/hub/login")
        body = {"username": user, "password": "any password", "_xsrf": self._xsrf(browser)}
        await self._send(browser, "POST", "/hub/login?next=%2Fhub%2Ferror%2F404", data=body)
        await self._send(browser, "GET", "/hub/home")

    def _xsrf(self, browser: aiohttp.ClientSession) -> str:
        return next((cookie.value for cookie in browser.cookie_jar if cookie.key == "_xsrf"), "")

    async def _send(self, session: aiohttp.ClientSession, method: str, path: str, **options: Any) -> tuple[int, str]:
        try:
            async with session.request(method, self.url + path, allow_redirects=False, **options) as answer:
                text = await answer.text()
        except UNANSWERED as error:
            raise NoAnswerError from error
        if answer.status in NO_HUB and "X-JupyterHub-Version" not in answer.headers:
            raise NoAnswerError
        return answer.status, text

    async def close(self) -> None:
        for browser in self._browsers.values():
            await browser.close()


@asynccontextmanager
async def people(url: str, token: str) -> AsyncIterator[People]:
    """Let people come, and go at the end."""
    headers = {"Authorization": f"token {token}"}
    async with aiohttp.ClientSession(headers=headers, timeout=TIMEOUT) as program:
        crowd = People(url, token, program)
        try:
            yield crowd
        finally:
            await crowd.close()


def _api(user: str, server: str) -> str:
    path = f"/hub/api/users/{quote(user)}/server"
    return f"{path}s/{quote(server)}" if server else path
