"""Pods of servers that start, as KubeSpawner's watch of an API server has them."""

from __future__ import annotations

import asyncio
import copy
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.starts import pod_of
from tests.unit.kube.watch_server import WatchServer, eventually

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity.",
}
NO_IMAGE = {
    "name": "notebook",
    "ready": False,
    "restartCount": 0,
    "image": "registry.example/pytorch:1",
    "state": {
        "waiting": {
            "reason": "ErrImageNeverPull",
            "message": 'Container image "registry.example/pytorch:1" is not present with pull policy of Never',
        }
    },
}


class Reflector(SimpleNamespace):
    """As much of KubeSpawner's as is looked at."""

    __hash__ = object.__hash__


def pods_path(spawner: GPUSpawner) -> str:
    return f"/api/v1/namespaces/{spawner.namespace}/pods"


async def pod_that_waits(spawner: GPUSpawner, options: dict[str, Any], *, uid: str = "1") -> dict[str, Any]:
    """Return the pod of a choice as the API server has it while no node would take it."""
    pod = copy.deepcopy(await pod_of(spawner, options))
    pod["metadata"] |= {"namespace": spawner.namespace, "uid": uid, "creationTimestamp": "2026-11-22T10:00:00Z"}
    pod["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    return pod


async def sent(server: WatchServer, spawner: GPUSpawner) -> None:
    """Wait until a spawner has sent its pod, not only for the API server to look at."""

    def is_sent() -> bool:
        posts = (each for each in server.requests if each.method == "POST" and each.path == pods_path(spawner))
        return any("dryRun" not in each.query for each in posts)

    await eventually(is_sent)


async def begin_with(server: WatchServer, spawner: GPUSpawner, pod: dict[str, Any]) -> asyncio.Future[Any]:
    """Begin a start, and have the API server hold this pod once the spawner has sent its own."""
    start: asyncio.Future[Any] = spawner.start()
    await sent(server, spawner)
    server.put("/api/v1/pods" if spawner.enable_user_namespaces else pods_path(spawner), pod)
    return start


async def cut_off(task: asyncio.Future[Any]) -> None:
    """Cancel a start or a watch, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def admit(server: WatchServer, spawner: GPUSpawner, **spec: Any) -> None:
    """Have the API server add this to the spec of each pod, as its admission plugins do."""

    async def answer(request: web.Request) -> web.Response:
        pod = await request.json()
        metadata = {"uid": "u", "namespace": spawner.namespace, **pod["metadata"]}
        return web.json_response({**pod, "metadata": metadata, "spec": {**pod["spec"], **spec}}, status=201)

    server.answers["POST", pods_path(spawner)] = answer
