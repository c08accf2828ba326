"""The forms in JupyterHub's own page, on a small site of this machine, so that no cluster is needed.

As the hub does, it answers a form that was sent with the address of the page of a server that starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH
from kubespawner import KubeSpawner

from bench.actions import offer
from gpuspawner.core.form.build import LiveState, build_view
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.views import FormView
from gpuspawner.core.verdict.availability import count_availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.hub.form.refresh import build_answer, compute_tag
from gpuspawner.hub.form.rendering import render

OURS = "ours"
_USER = "ada"
PENDING = f"/hub/spawn-pending/{_USER}"
_HUB = Path(DATA_FILES_PATH)
_STARTS = "<!DOCTYPE html><html lang=en><title>Starts</title><body>Your server is starting up.</body></html>"


@dataclass
class Site:
    """The forms by name, and what they have sent.

    :ivar url: address of the site, without a slash at the end.
    :ivar sent: when each form came (``time.perf_counter``), and its fields.
    """

    profile_lists: Mapping[str, list[dict[str, Any]]]
    url: str = ""
    sent: list[tuple[float, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._offered, self._inventory = offer.catalog(), offer.inventory()

    def address(self, name: str) -> str:
        """Return the address of a form."""
        return f"{self.url}/{name}/hub/spawn"

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answer with a form, or with what is new since an open one was loaded."""
        name = request.match_info["name"]
        if name != OURS:
            return _page(await _spawn_page(name, self._their_form(name)))
        choice = request.headers.get("Gpuspawner-Choice")
        view = self._view(None if choice is None else json.loads(choice))
        if choice is None:
            shown = replace(view, tag=compute_tag(view))
            return _page(await _spawn_page(name, render(shown)))
        status, headers, body = build_answer(view, sent=request.headers, again_s=10)
        return web.Response(status=status, headers=headers, body=body or None)

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Take a form that was sent."""
        came = time.perf_counter()
        fields = await request.post()
        self.sent.append((came, {name: str(value) for name, value in fields.items()}))
        raise web.HTTPFound(f"/{request.match_info['name']}{PENDING}")

    def _view(self, typed: dict[str, str] | None) -> FormView:
        filled = fill_fields(self._offered, typed=typed)
        live = LiveState(
            availabilities=count_availability(tuple(self._offered.gpus.values()), self._inventory),
            verdict=Verdict(outcome=Outcome.NOW, places=1, places_exact=True),
        )
        return build_view(self._offered, self._inventory, filled=filled, live=live)

    def _their_form(self, name: str) -> str:
        # Its constructor wants a cluster, its form does not.
        spawner = KubeSpawner.__new__(KubeSpawner)
        return str(spawner._render_options_form(self.profile_lists[name]))


def _page(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


async def _starts(_: web.Request) -> web.Response:
    return _page(_STARTS)


async def _logo(_: web.Request) -> web.StreamResponse:
    return web.FileResponse(_HUB / "static" / "images" / "jupyterhub-80.png")


async def _spawn_page(name: str, form: str) -> str:
    """Return JupyterHub's page with a form in it, as a user sees it who is no admin."""
    folder = FileSystemLoader(_HUB / "templates")
    loader = ChoiceLoader([folder, PrefixLoader({"templates": folder})])
    template = Environment(loader=loader, autoescape=True, enable_async=True).get_template("spawn.html")
    user = SimpleNamespace(name=_USER, json_escaped_name=_USER, spawner=SimpleNamespace(options_form=True))
    return await template.render_async(
        spawner_options_form=form,
        url=f"/{name}/hub/spawn",
        user=user,
        for_user=user,
        parsed_scopes=(),
        base_url=f"/{name}/hub/",
        logout_url=f"/{name}/hub/logout",
        prefix="/",
        static_url=lambda path, **_: f"/static/{path}",
    )


@asynccontextmanager
async def serving(profile_lists: Mapping[str, list[dict[str, Any]]]) -> AsyncIterator[Site]:
    """Serve our form as ``ours``, and KubeSpawner's of each profile list by its name."""
    site = Site(profile_lists)
    app = web.Application()
    app.add_routes(
        [
            web.get("/{name}/hub/spawn", site.show),
            web.get(f"/{{name}}/hub/spawn/{_USER}", site.show),  # where an open form asks for what is new
            web.post("/{name}/hub/spawn", site.take),
            web.get(f"/{{name}}{PENDING}", _starts),
            web.get("/{name}/hub/logo", _logo),
            web.static("/static", _HUB / "static"),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        site.url = f"http://{host}:{port}"
        yield site
    finally:
        await runner.cleanup()
