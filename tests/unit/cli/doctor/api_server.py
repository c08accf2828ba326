"""An API server reduced to what a test says of it: an answer for each method and path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.cli.cluster.connection import ClusterConnection

Answer = Callable[[Any], tuple[int, Any]]
"""From the body of a request, None without one, to status and body of the response."""


@dataclass
class APIServer:
    """Answers 404 where nothing is said; ``asked`` has method and path of each request, with its query."""

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def lists(self, path: str, *items: Any) -> None:
        body = {"metadata": {"resourceVersion": "1"}, "items": list(items)}
        self.answers["GET", path] = lambda _: (200, body)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path_qs))
        self.headers.append(dict(request.headers))
        body = await request.json() if request.can_read_body else None
        for (method, path), answer in self.answers.items():
            if method == request.method and request.path.startswith(path):
                status, told = answer(body)
                return web.json_response(told, status=status)
        return web.json_response({"kind": "Status"}, status=404)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[APIServer, ClusterConnection]]:
    """Serve, and connect to it."""
    server = APIServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with ApiClient(Configuration(host=f"http://{host}:{port}")) as client:
            yield server, ClusterConnection(client=client, core=CoreV1Api(client), namespace="jhub")
    finally:
        await runner.cleanup()
