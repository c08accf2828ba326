"""An API server reduced to its HTTP seam: it answers list requests with what a test gives it, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class ListServer:
    """Lists of objects by path; a path in ``status`` answers all requests with an error, one in ``held`` none."""

    url: str = ""
    objects: dict[str, list[Any]] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    requests: list[web.Request] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.asked.set()
        await self.gate.wait()
        if request.path in self.held:
            await asyncio.Event().wait()
        if request.path in self.status:
            return web.json_response({"kind": "Status", "message": "no"}, status=self.status[request.path])
        if request.path in self.bodies:
            return web.Response(text=self.bodies[request.path])
        items = self.objects.get(request.path, [])
        first, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "500"))
        following = str(first + limit) if first + limit < len(items) else ""
        return web.json_response(
            {"items": items[first : first + limit], "metadata": {"continue": following, "resourceVersion": "1"}}
        )


@asynccontextmanager
async def serve() -> AsyncIterator[ListServer]:
    server = ListServer()
    server.gate.set()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    yield server
    server.gate.set()
    await runner.cleanup()
