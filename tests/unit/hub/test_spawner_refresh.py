"""An open form asks JupyterHub what is new, over HTTP: who is logged in, what failed and what is logged stay right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from bs4 import BeautifulSoup

from gpuspawner.hub.form.refresh import AGAIN_HEADER, AGE_HEADER
from gpuspawner.hub.request.context import CHOICE_HEADER
from tests.unit.hub.conftest import SETTINGS
from tests.unit.hub.real_hub import RealHub, real_hub, unused_port
from tests.unit.islands import faults
from tests.unit.kube.watch_server import PODS, WatchServer, refusal
from tests.unit.kube.watch_server import pod as other_pod

OWN_PODS = "/api/v1/namespaces/default/pods"
CHOICE = {"image": "minimal", "cpu": "2", "memory": "4", "gpu": "a100", "gpu_count": "1"}


def config() -> dict[str, Any]:
    return {
        "GPUSpawner": {**SETTINGS, "presets": {"small": {"cpu": 1}}},
        "KubeSpawner": {"port": unused_port(), "namespace": "default"},
        "JupyterHub": {"allow_named_servers": True},
    }


class Tab:
    """A browser's tab with the form of a server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url, self.tag = session, url, ""

    async def open(self) -> None:
        async with self.session.get(self.url) as answer:
            (data,) = BeautifulSoup(await answer.text(), "html.parser").select("#gpuspawner-data")
            self.tag = f'"{json.loads(data.text)["tag"]}"'

    async def ask(self, **headers: str) -> aiohttp.ClientResponse:
        """Ask as the form's script does; ``headers`` replace its own, with underscores in their names."""
        sent = {"Accept": "application/json", CHOICE_HEADER: json.dumps(CHOICE), "If-None-Match": self.tag}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(self.url, headers=sent, allow_redirects=False) as answer:
            await answer.read()
        return answer

    async def news(self) -> dict[str, Any]:
        """Ask, and take over the tag."""
        answer = await self.ask()
        assert answer.status == HTTPStatus.OK
        self.tag = answer.headers["ETag"]
        found: dict[str, Any] = await answer.json()
        assert faults(found) == []
        return found


@asynccontextmanager
async def tab_of(hub: RealHub, user: str, server: str = "") -> AsyncIterator[Tab]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(f"{hub.url}/hub/login") as answer:
            xsrf = answer.cookies["_xsrf"].value
        form = {"username": user, "password": "x", "_xsrf": xsrf}
        async with session.post(f"{hub.url}/hub/login", data=form):
            pass
        yield Tab(session, f"{hub.url}/hub/spawn/{user}/{server}".rstrip("/"))


def errors(hub: RealHub) -> list[str]:
    return [line for line in hub.read_log().splitlines() if line.startswith(("[E", "[W", "Traceback"))]


async def test_an_open_form_gets_news_or_nothing_and_no_page(server: WatchServer, tmp_path: Path):
    async with real_hub(tmp_path, api=server.url, config=config()) as hub, tab_of(hub, "ada") as tab:
        before = errors(hub)
        await tab.open()
        await tab.news()  # about the choice, which is not what the form opened with
        quiet = await tab.ask()
        server.put(PODS, other_pod("other", on="gpu-1", gpus=3))

        async def taken() -> bool:
            return (await tab.ask()).status == HTTPStatus.OK

        await hub.wait(taken, True)
        found = await tab.news()
        old_tab = await tab.ask(Accept="text/html")

        assert (quiet.status, quiet.content_length) == (HTTPStatus.NOT_MODIFIED, None)
        assert float(quiet.headers[AGAIN_HEADER]) >= 10
        assert float(quiet.headers[AGE_HEADER]) < 45
        assert (quiet.headers["Cache-Control"], "Content-Type" in quiet.headers) == ("private, no-store", False)
        assert [gpu["capacity_text"] for gpu in found["gpus"]] == ["1 of 4 free", "none at the moment"]
        assert "gpuspawner-form" in await old_tab.text()
        assert errors(hub) == before


async def test_who_is_signed_out_gets_no_data(server: WatchServer, tmp_path: Path):
    async with real_hub(tmp_path, api=server.url, config=config()) as hub, tab_of(hub, "ada") as tab:
        await tab.open()
        tab.session.cookie_jar.clear()
        answer = await tab.ask()
        assert (answer.status, "/hub/login" in answer.headers["Location"]) == (HTTPStatus.FOUND, True)


@pytest.mark.parametrize("name", ["", "second"], ids=["default server", "named server"])
async def test_a_refresh_never_erases_the_message_of_a_failed_start(server: WatchServer, tmp_path: Path, name: str):
    async with real_hub(tmp_path, api=server.url, config=config()) as hub, tab_of(hub, "ada", name) as tab:
        await tab.open()
        server.answers = {("POST", OWN_PODS): refusal(403)}
        await hub.ask(
            "POST", f"users/ada/servers/{name}" if name else "users/ada/server", {"image": "minimal", "cpu": 2}
        )
        pending = f"{hub.url}/hub/spawn-pending/ada/{name}".rstrip("/")

        async def message() -> str:
            async with tab.session.get(pending) as answer:
                return f"{answer.status}, a message: {'(403)' in await answer.text()}"

        await hub.wait(lambda: _is_failed(hub, name), True)
        before = await message()
        await tab.news()
        for _ in range(3):
            await tab.ask()
            assert await message() == before
        assert before == "503, a message: True"


async def _is_failed(hub: RealHub, name: str) -> bool:
    _, found = await hub.ask("GET", "users/ada?include_stopped_servers")
    server = found["servers"].get(name, {})
    return not (server.get("pending") or server.get("ready"))
