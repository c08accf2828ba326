"""Answers as every user's server does, in place of pods on simulated nodes, in which nothing runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def stand_in(port: int) -> AsyncIterator[None]:
    """Listen inside the block."""

    async def answer(_request: web.Request) -> web.Response:
        body = json.dumps({"version": "2.0.0"})
        return web.Response(text=body, content_type="application/json")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
    finally:
        await runner.cleanup()
