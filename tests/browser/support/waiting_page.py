"""JupyterHub's own page of a server that starts, as a site with a template of its own has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from playwright.async_api import Page, Route

TEMPLATES = Path(sys.prefix) / "share" / "jupyterhub" / "templates"


async def serve_jupyterhubs_page(page: Page) -> None:
    """Show JupyterHub's own page instead of the one in a window, for the same server and the same person."""
    data = json.loads(await page.locator("#gpuspawner-data").inner_text())
    known: dict[str, Any] = await page.evaluate("window.jhdata")
    own = FileSystemLoader([str(TEMPLATES)])
    environment = Environment(loader=ChoiceLoader([PrefixLoader({"templates": own}), own]), autoescape=True)
    html = environment.get_template("spawn_pending.html").render(
        progress_url=data["progress_url"],
        base_url=known["base_url"],
        xsrf_token=known["xsrf_token"],
        user=SimpleNamespace(name=known["user"], json_escaped_name=known["user"]),
        no_spawner_check=True,
        parsed_scopes=(),
        services=(),
        static_url=lambda path, **_: f"{known['base_url']}static/{path}",
    )

    async def answer(route: Route) -> None:
        await route.fulfill(content_type="text/html", body=html)

    await page.route(page.url, answer)
    await page.reload()
