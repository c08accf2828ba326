"""The address of the form, answered without a hub: for what a page does by itself, with a clock that tests turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

PATH = "/hub/spawn"


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
