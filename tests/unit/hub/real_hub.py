"""JupyterHub as a process with GPUSpawner, in front of an API server of the tests; it can be killed and started again.

Its proxy is a file of routes, which outlasts the hub as a proxy of its own does.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import yaml

import gpuspawner
from devcluster.ports import free_ports

_START_S = 60.0
_CONFIG = """
import asyncio, json
from pathlib import Path
from jupyterhub.proxy import Proxy

folder, given = Path({folder!r}), json.loads({given!r})


class RoutesInAFile(Proxy):
    file = folder / "routes.json"

    async def get_all_routes(self):
        return json.loads(self.file.read_text()) if self.file.exists() else {{}}

    async def add_route(self, routespec, target, data):
        route = {{"routespec": routespec, "target": target, "data": data}}
        self.file.write_text(json.dumps({{**await self.get_all_routes(), routespec: route}}))

    async def delete_route(self, routespec):
        routes = await self.get_all_routes()
        routes.pop(routespec, None)
        self.file.write_text(json.dumps(routes))


async def wait_while_held(spawner, pod):
    while (folder / f"held-{{spawner.user.name}}").exists():
        await asyncio.sleep(0.02)
    cancelled = False
    while (folder / f"deaf-{{spawner.user.name}}").exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return pod


async def wait_while_stopping(spawner):
    while (folder / f"stopping-{{spawner.user.name}}").exists():
        await asyncio.sleep(0.02)


c = get_config()  # noqa
c.JupyterHub.proxy_class = RoutesInAFile
c.RoutesInAFile.should_start = False
c.JupyterHub.spawner_class = "gpuspawner.GPUSpawner"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.bind_url = c.JupyterHub.hub_bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.db_url = f"sqlite:///{{folder}}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.cleanup_servers = c.JupyterHub.cleanup_proxy = False
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": 0}}
c.JupyterHub.services = [{{"name": "test", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "read:metrics"]}}
]
c.Authenticator.allow_all = True
c.Spawner.poll_interval = 1
c.KubeSpawner.modify_pod_hook = wait_while_held
c.KubeSpawner.post_stop_hook = wait_while_stopping
c.KubeSpawner.delete_grace_period = 0
for section, values in given.items():
    for name, value in values.items():
        c[section][name] = value
"""


class RealHub:
    """One JupyterHub.

    :param config: by section.
    :param python: of an environment in which gpuspawner is installed; None for the tests' own, with the checkout.
    :ivar url: its address, without a slash at the end.
    """

    def __init__(self, folder: Path, *, api: str, config: Mapping[str, Any], python: Path | None = None) -> None:
        self.folder = folder
        self._python = python
        self._token = secrets.token_hex()
        self.url = self._url = f"http://127.0.0.1:{(port := unused_port())}"
        self._process: asyncio.subprocess.Process | None = None
        (folder / "kubeconfig").write_text(yaml.safe_dump(_kubeconfig(api)))
        (folder / "jupyterhub_config.py").write_text(
            _CONFIG.format(folder=str(folder), given=json.dumps(config), port=port, token=self._token)
        )

    async def start(self) -> None:
        """Start the process, and wait until the hub answers."""
        checkout = {} if self._python else {"PYTHONPATH": str(Path(gpuspawner.__file__).parent.parent)}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "SSL_CERT_FILE") if name in os.environ}
        with (self.folder / "hub.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._python or sys.executable, "-m", "jupyterhub", f"--config={self.folder}/jupyterhub_config.py",
                cwd=self.folder, stdout=log, stderr=log,
                env={**kept, **checkout, "KUBECONFIG": str(self.folder / "kubeconfig")},
            )  # fmt: skip
        async with asyncio.timeout(_START_S):
            while (await self.ask("GET", ""))[0] != 200:
                assert self._process.returncode is None, self.read_log()
                await asyncio.sleep(0.05)

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the process."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(how)
        await self._process.wait()

    def read_cpu_s(self) -> float:
        """Return how much processor time the process has used, which does not depend on what else runs."""
        assert self._process is not None
        used = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    def read_log(self) -> str:
        return (self.folder / "hub.log").read_text()

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request to the REST API; status 0 if nothing answers."""
        headers = {"Authorization": f"token {self._token}"}
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.request(method, f"{self._url}/hub/api/{path}", json=body) as answer,
            ):
                text = await answer.text()
                return answer.status, json.loads(text) if text.startswith(("{", "[")) else text
        except aiohttp.ClientError:
            return 0, None

    async def begin(self, user: str, options: Mapping[str, object]) -> None:
        """Ask for a server."""
        await self.ask("POST", f"users/{user}")
        status, answer = await self.ask("POST", f"users/{user}/server", dict(options))
        assert status == 202, answer

    async def read_state(self, user: str) -> str:
        """Return ``ready``, what is pending, or ``stopped``."""
        _, found = await self.ask("GET", f"users/{user}?include_stopped_servers")
        server = found.get("servers", {}).get("", {})
        return "ready" if server.get("ready") else server.get("pending") or "stopped"

    async def wait_until(self, user: str, state: str) -> None:
        await self.wait(lambda: self.read_state(user), state)

    async def wait(self, read: Any, expected: object, *, timeout_s: float = 60.0) -> None:
        """Wait until what is read is as expected; fail with what it was and the hub's log."""
        found = None
        try:
            async with asyncio.timeout(timeout_s):
                while (found := await read()) != expected:  # noqa: ASYNC110  # another process
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{found!r} instead of {expected!r}\n{self.read_log()}") from None

    async def follow(self, user: str, text: str) -> dict[str, Any]:
        """Return the first progress event whose message has this text."""
        events: list[dict[str, Any]] = []
        headers = {"Authorization": f"token {self._token}", "Accept": "text/event-stream"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{self._url}/hub/api/users/{user}/server/progress") as answer,
        ):
            async for line in answer.content:
                if line.startswith(b"data: "):
                    events.append(json.loads(line.removeprefix(b"data: ")))
                    if text in events[-1].get("message", ""):
                        return events[-1]
        raise AssertionError(f"{events}\n{self.read_log()}")

    async def read_pages(self, user: str, *paths: str) -> list[str]:
        """Log in, and return pages."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            login = f"{self._url}/hub/login"
            async with session.get(login) as answer:
                xsrf = answer.cookies["_xsrf"].value
            async with session.post(login, data={"username": user, "password": "x", "_xsrf": xsrf}):
                pass
            pages = []
            for path in paths:
                async with session.get(f"{self._url}{path}") as answer:
                    pages.append(await answer.text())
            return pages

    def read_routes(self) -> dict[str, str]:
        """Return the targets of the users' routes."""
        routes = json.loads((self.folder / "routes.json").read_text())
        return {path: route["target"] for path, route in routes.items() if "user" in route["data"]}

    def change_config(self, old: str, new: str) -> None:
        """Replace a text in the configuration, for the next start of the hub."""
        file = self.folder / "jupyterhub_config.py"
        file.write_text(file.read_text().replace(old, new))

    def age(self, user: str, seconds: float) -> None:
        """Have a start begun this much earlier; the hub must not run."""
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=seconds)
        with sqlite3.connect(self.folder / "hub.sqlite") as database:
            database.execute(
                "UPDATE spawners SET started = ? WHERE user_id = (SELECT id FROM users WHERE name = ?)",
                (began.isoformat(sep=" "), user),
            )
        database.close()

    def has_stored_start(self, user: str) -> bool:
        """Return whether the hub's database has the record of a start, so that the start outlasts the hub."""
        with sqlite3.connect(self.folder / "hub.sqlite") as database:
            query = "SELECT spawners.state FROM spawners JOIN users ON users.id = user_id WHERE users.name = ?"
            found = database.execute(query, (user,)).fetchone()
        database.close()
        return found is not None and '"timeout_s"' in (found[0] or "")


@asynccontextmanager
async def real_hub(
    folder: Path, *, api: str, config: Mapping[str, Any], python: Path | None = None
) -> AsyncIterator[RealHub]:
    hub = RealHub(folder, api=api, config=config, python=python)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.kill()


@asynccontextmanager
async def notebook(port: int) -> AsyncIterator[None]:
    """Answer as a user's server does."""

    async def answer(_: object) -> aiohttp.web.Response:
        return aiohttp.web.json_response({"version": "2"}, headers={"X-JupyterHub-Version": "5.0.0"})

    app = aiohttp.web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = aiohttp.web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


def unused_port() -> int:
    (port,) = free_ports(["127.0.0.1"])
    return port


def _kubeconfig(api: str) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": api}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
