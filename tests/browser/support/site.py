"""The address of the form, answered without a hub: for what a page does by itself, with a clock that tests turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web
from jupyterhub._data import DATA_FILES_PATH
from playwright.async_api import Page, Route

from gpuspawner.core.form.views import FormView
from gpuspawner.hub.form.refresh import build_answer, compute_tag
from gpuspawner.hub.form.rendering import render
from gpuspawner.hub.request.context import CHOICE_HEADER

PATH = "/hub/spawn"
STYLE = (Path(DATA_FILES_PATH) / "static" / "css" / "style.min.css").read_text(encoding="utf-8-sig")
PAGE = """<!DOCTYPE html><html lang="en"><head><title>Form</title><meta name="viewport" content="width=device-width">
<style>{}</style></head><body><main class="container"><h1>Server Options</h1>
<form id="spawn_form" method="post" enctype="multipart/form-data">{}<br>
<div class="feedback-container"><button type="submit" class="btn btn-jupyter">Start</button></div></form></main>
<script>
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.bsTheme = "dark";
</script>
</body></html>"""
BARE_PAGE = """<!DOCTYPE html><html lang="en"><head><title>Form</title></head><body>
<form id="spawn_form" method="post">{}
<div class="feedback-container"><button type="submit">Start</button></div></form></body></html>"""
_ANSWERED = "<!DOCTYPE html><html lang=en><title>Sent</title><body>Sent</body></html>"


@dataclass
class LiveSite:
    """Answers as the hub does: with the form for the choice in the header, or with what is new of it.

    :param asked: the choices that were asked about, in order; None for a page that was opened.
    :param again_s: after how many seconds an open form is to ask again.
    """

    asked: list[dict[str, str] | None] = field(default_factory=list)
    again_s: float = 10.0
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        choice = request.headers.get(CHOICE_HEADER)
        self.asked.append(None if choice is None else json.loads(choice))
        view = self.view(self.asked[-1])
        if is_refresh(request):
            return refreshed(request, view, again_s=self.again_s)
        return web.Response(text=BARE_PAGE.format(render_open(view)), content_type="text/html")

    def view(self, choice: dict[str, str] | None) -> FormView:
        raise NotImplementedError


def render_open(view: FormView) -> str:
    """Return a form that can refresh itself, as the hub does."""
    return render(replace(view, tag=compute_tag(view)))


def is_refresh(request: web.Request) -> bool:
    """Say whether an open form asks for what is new."""
    return "application/json" in request.headers.get("Accept", "")


def refreshed(request: web.Request, view: FormView, *, again_s: float = 10.0) -> web.Response:
    """Answer an open form that asks for what is new, as the hub does.

    :param again_s: after how many seconds it is to ask again.
    """
    status, headers, body = build_answer(view, sent=request.headers, again_s=again_s)
    return web.Response(status=status, headers=headers, body=body or None)


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """Serve the form's page, and yield its address."""
    app = web.Application()
    app.router.add_get(PATH, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}{PATH}"
    finally:
        await runner.cleanup()


async def answer_posts(page: Page, sent: list[dict[str, list[str]]]) -> None:
    """Answer each form that the page sends, and append its fields to ``sent``."""

    async def answer(route: Route) -> None:
        if route.request.method != "POST":
            await route.continue_()
            return
        sent.append(_read_multipart(route.request.post_data or ""))
        await route.fulfill(body=_ANSWERED, content_type="text/html")

    await page.route("**/spawn", answer)


async def sign_in(page: Page, person: dict[str, Any]) -> None:
    """Let the page know its user, as the hub's own pages do, and answer what it asks the REST API about that user.

    :param person: the user as the REST API describes it; the test may change it. Empty = no user is signed in.
    """

    async def answer(route: Route) -> None:
        await route.fulfill(json=person) if person else await route.fulfill(status=403)

    await page.add_init_script(f"globalThis.jhdata = {json.dumps({'base_url': '/hub/', 'user': person['name']})}")
    await page.route("**/hub/api/user", answer)


def _read_multipart(body: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in body.split("\r\n--"):
        head, _, text = part.partition("\r\n\r\n")
        if 'name="' in head:
            found.setdefault(head.split('name="')[1].split('"')[0], []).append(text)
    return found
