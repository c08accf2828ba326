"""Pages of the hub, as a browser gets them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from bs4 import BeautifulSoup

from gpuspawner.hub.spawner import GPUSpawner


async def opened_by(handler: Any, spawner: GPUSpawner) -> BeautifulSoup:
    """Open a form as JupyterHub does, in a request of its own."""

    async def get() -> str:
        spawner.handler = handler
        return str(await spawner.get_options_form())

    return BeautifulSoup(await asyncio.create_task(get()), "html.parser")


async def opened(spawner: GPUSpawner, arguments: dict[str, list[bytes]], method: str = "GET") -> BeautifulSoup:
    """Open a form by a link with these arguments."""
    request = SimpleNamespace(method=method, query_arguments=arguments, headers={})
    spawner.handler = SimpleNamespace(request=request, current_user=None)
    return BeautifulSoup(str(await spawner.get_options_form()), "html.parser")


def text(page: BeautifulSoup, selector: str) -> str:
    found = page.select_one(selector)
    assert found is not None
    return " ".join(found.get_text().split())
