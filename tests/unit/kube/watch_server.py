"""An API server reduced to what a watch needs of it: lists in pages, changes since a version, bookmarks.

Besides what a sound server does, it does on demand what broken ones, proxies and networks do.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from aiohttp import web

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
VERSION_DEPTH = 3
"""Slashes in the path of an API version, ``/apis/karpenter.sh/v1``, which tells what the API server serves."""
HANG = object()
"""As a piece of a script: say nothing more, and keep the connection."""
CUT = object()
"""As a piece of a script: break the connection off."""

Key = tuple[str, str]


@dataclass
class WatchServer:
    """Objects by path, and every change of them by version.

    :ivar status: by path, the HTTP status that all its requests are answered with.
    :ivar watch_status: the same for watches alone.
    :ivar denied: pairs of verb and resource (``("watch", "pods")``) that are refused.
    :ivar bodies: by path, what its lists are answered with.
    :ivar scripts: by path, pieces that its next watches send instead of what is true; one script a watch.
    :ivar held: paths whose requests are not answered at all.
    :ivar answers: by method and path, a function that answers instead (as usual where it returns None), or ``HANG``.
    :ivar oldest: versions before this one are forgotten.
    :ivar lifetime_s: after which a watch ends, whatever was asked for.
    """

    url: str = ""
    version: int = 100
    objects: dict[str, dict[Key, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    changes: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    status: dict[str, int] = field(default_factory=dict)
    watch_status: dict[str, int] = field(default_factory=dict)
    denied: set[tuple[str, str]] = field(default_factory=set)
    bodies: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, list[list[Any]]] = field(default_factory=lambda: defaultdict(list))
    held: set[str] = field(default_factory=set)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    oldest: int = 0
    lifetime_s: float = 30.0
    sends_bookmarks: bool = True
    requests: list[web.Request] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    open_: asyncio.Event = field(default_factory=asyncio.Event)
    streams: list[web.Request] = field(default_factory=list)

    def put(self, path: str, *objects: dict[str, Any]) -> None:
        """Create or change objects."""
        for raw in objects:
            kind = "MODIFIED" if key(raw) in self.objects[path] else "ADDED"
            self._change(path, kind, raw)
            self.objects[path][key(raw)] = self.changes[-1][3]

    def delete(self, path: str, raw: dict[str, Any]) -> None:
        self._change(path, "DELETED", self.objects[path].pop(key(raw)))

    def expire(self) -> None:
        """Forget all changes so far."""
        self.version += 1
        self.oldest = self.version

    def cut(self) -> None:
        """Break off all watches."""
        for request in self.streams:
            if request.transport is not None:
                request.transport.abort()

    def asked(self, path: str, *, watch: bool) -> list[web.Request]:
        """Return the requests for a path, lists or watches, in their order."""
        return [each for each in self.requests if each.path == path and ("watch" in each.query) == watch]

    def _change(self, path: str, kind: str, raw: dict[str, Any]) -> None:
        self.version += 1
        metadata = {**raw["metadata"], "resourceVersion": str(self.version)}
        self.changes.append((self.version, path, kind, {**raw, "metadata": metadata}))
        self.changed.set()
        self.changed = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        await self.open_.wait()
        answer = self.answers.get((request.method, request.path))
        if request.path in self.held or answer is HANG:
            await asyncio.Event().wait()
        if answer is not None:
            answered = answer(request)
            answered = await answered if isawaitable(answered) else answered
            if answered is not None:
                return answered
        if request.path == REVIEWS:
            return await self._review(request)
        if request.method == "POST" and request.path not in self.status:
            made = await request.json()
            if "metadata" in made:
                made["metadata"] = {"uid": f"uid-{len(self.requests)}", **made["metadata"]}
            return web.json_response(made, status=201)
        is_watch = "watch" in request.query
        denied = ("watch" if is_watch else "list", request.path.rpartition("/")[2]) in self.denied
        status = 403 if denied else self.status.get(request.path) or (is_watch and self.watch_status.get(request.path))
        if status:
            return web.json_response({"kind": "Status", "message": "no", "code": status}, status=status)
        return await self._watch(request) if is_watch else self._list(request)

    async def _review(self, request: web.Request) -> web.Response:
        if status := self.status.get(REVIEWS):
            return web.json_response({"kind": "Status"}, status=status)
        attributes = (await request.json())["spec"]["resourceAttributes"]
        allowed = (attributes["verb"], attributes["resource"]) not in self.denied
        return web.json_response({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}, status=201)

    def _list(self, request: web.Request) -> web.Response:
        if request.path in self.bodies:
            return web.Response(text=self.bodies[request.path], content_type="application/json")
        if request.path.startswith("/apis/") and request.path.count("/") == VERSION_DEPTH:
            return web.json_response({"kind": "APIResourceList", "resources": self._served(request.path)})
        objects = list(self.objects[request.path].values())
        field, _, name = request.query.get("fieldSelector", "").partition("=")
        if field == "metadata.name":
            objects = [each for each in objects if each["metadata"]["name"] == name]
        first, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "500"))
        metadata = {"resourceVersion": str(self.version)}
        if first + limit < len(objects):
            metadata["continue"] = str(first + limit)
        return web.json_response({"kind": "List", "metadata": metadata, "items": objects[first : first + limit]})

    def _served(self, version: str) -> list[dict[str, str]]:
        """Return the resources of an API version of which something is known here."""
        known = {*self.objects, *self.status, *self.bodies, *self.held}
        return [{"name": path.removeprefix(f"{version}/")} for path in known if path.startswith(f"{version}/")]

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.streams.append(request)
        with suppress(ConnectionError):
            if self.scripts[request.path]:
                await self._play(self.scripts[request.path].pop(0), request, response)
            elif int(request.query["resourceVersion"]) < self.oldest:
                status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
                await response.write(event("ERROR", status))
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(self.lifetime_s, float(request.query["timeoutSeconds"]))):
                        await self._follow(request, response)
                if self.sends_bookmarks and request.query.get("allowWatchBookmarks") == "True":
                    await response.write(bookmark(self.version))
        self.streams.remove(request)
        return response

    async def _play(self, script: list[Any], request: web.Request, response: web.StreamResponse) -> None:
        for piece in script:
            if piece is HANG:
                await asyncio.Event().wait()
            elif piece is CUT:
                request.transport.abort()
            else:
                await response.write(piece)

    async def _follow(self, request: web.Request, response: web.StreamResponse) -> None:
        sent = int(request.query["resourceVersion"])
        while True:
            changed = self.changed
            for version, path, kind, raw in list(self.changes):
                if path == request.path and version > sent:
                    await response.write(event(kind, raw))
                    sent = version
            await changed.wait()


def refusal(status: int, message: str = "no") -> Callable[[web.Request], web.Response]:
    """Return an answer with which an API server refuses."""
    return lambda _: web.json_response({"kind": "Status", "message": message, "code": status}, status=status)


def break_off(request: web.Request) -> web.Response:
    """Break off the connection instead of an answer."""
    request.transport.abort()
    return web.Response()


def key(raw: dict[str, Any]) -> Key:
    return (raw["metadata"].get("namespace", ""), raw["metadata"]["name"])


def event(kind: str, raw: object) -> bytes:
    return json.dumps({"type": kind, "object": raw}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


NVIDIA_CLASS: dict[str, Any] = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
"""A RuntimeClass that adds nothing to pods."""


def node(name: str, *, gpus: int = 4, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}, **metadata},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, *, on: str = "n1", gpus: int = 1, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"name": name, "namespace": "other", **metadata},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


def node_pool(name: str, *, requirements: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": list(requirements)}}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


async def eventually(condition: Callable[[], object], *, timeout_s: float = 30.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  # no event marks the condition
            await asyncio.sleep(0.002)


@asynccontextmanager
async def serve_watches(server: WatchServer | None = None) -> AsyncIterator[WatchServer]:
    server = server or WatchServer()
    server.open_.set()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    yield server
    server.open_.set()
    server.cut()
    await runner.cleanup()
