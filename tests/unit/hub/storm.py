"""People and programs who start, stop, cancel, rename and remove the same servers at the same moment.

The requests run JupyterHub's own handlers. The API server is slow and fails, and so do the proxy, the authenticator
and the admin's hook. Some requests go away when they have cancelled a start. The API server counts the GPUs of pods at
each instant: a pod counts from its creation until it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from jupyterhub.auth import DummyAuthenticator

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import CPU_NODE, GPU_NODE, SETTINGS
from tests.unit.hub.hub_requests import RealHub
from tests.unit.hub.real_hub import notebook, unused_port
from tests.unit.kube.watch_server import NODES, NVIDIA_CLASS, RUNTIME_CLASSES, WatchServer, break_off, eventually

OWN_PODS = "/api/v1/namespaces/default/pods"
LIMIT = 2
"""GPUs that a user may have."""
WORKERS = 8
USERS = ("ada", "bob", "eve")
SERVERS = ("a", "b", "c")
LEAVE = "CANCEL AND LEAVE"
_GPU = "nvidia.com/gpu"
_HUB_SETTINGS: dict[str, Any] = {
    "allow_named_servers": True,
    "allow_invalid_named_server_start": True,
    "slow_spawn_timeout": 0,
    "slow_stop_timeout": 0.2,
}
_ENDS_S = 60.0
"""Seconds for the hub to stop all servers when the storm is over."""


@dataclass
class StormyServer(WatchServer):
    """An API server that answers late or wrongly, and whose pods run and end a little later.

    :ivar draw: what is random.
    :ivar is_stormy: False once it has to answer correctly and at once.
    :ivar lets_run: whether nodes run the pods; else, the pods stay pending.
    :ivar most: user → the largest number of GPUs that the user's pods had at one instant.
    :ivar created: number of pods.
    :ivar journal: what happened to pods, with the time.
    """

    draw: random.Random = field(default_factory=random.Random)
    is_stormy: bool = True
    lets_run: bool = True
    most: Counter[str] = field(default_factory=Counter)
    created: int = 0
    journal: list[str] = field(default_factory=list)
    began_at: float = field(default_factory=time.monotonic)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.removeprefix(f"{OWN_PODS}/")
        if request.method == "POST" and request.path == OWN_PODS and "dryRun" not in request.query:
            return await self._create(request)
        if request.method == "DELETE" and name != request.path:
            return await self._delete(request, name)
        await self._pause()
        if self._draws(0.03):
            return _refuse(request, self.draw.choice((429, 500, 503)))
        return await super().answer(request)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        pod = await request.json()
        name = pod["metadata"]["name"]
        await self._pause()
        if self._draws(0.1):
            return _refuse(request, self.draw.choice((429, 500, 503)))
        if ("default", name) in self.objects[OWN_PODS]:
            return _refuse(request, 409, "AlreadyExists")
        self.created += 1
        pod["metadata"] |= {"namespace": "default", "uid": f"uid-{self.created}"}
        self.put(OWN_PODS, {**pod, "status": {"phase": "Pending"}})
        self.note(f"created {name} with {_count_gpus(pod)} GPUs, uid-{self.created}")
        for user in USERS:
            self.most[user] = max(self.most[user], self.count(user))
        if self.lets_run:
            self._later(lambda: self._run(pod), self.draw.uniform(0.2, 3))
        await self._pause()  # the pod exists, and the hub does not know it yet
        return break_off(request) if self._draws(0.1) else web.json_response(pod, status=201)

    async def _delete(self, request: web.Request, name: str) -> web.StreamResponse:
        await self._pause()
        if self._draws(0.1):
            return _refuse(request, self.draw.choice((429, 500, 503)))
        pod = self.objects[OWN_PODS].get(("default", name))
        if pod is None:
            return _refuse(request, 404)
        if "deletionTimestamp" not in pod["metadata"]:
            deleted = {**pod["metadata"], "deletionTimestamp": "2026-11-22T10:00:00Z"}
            self.put(OWN_PODS, {**pod, "metadata": deleted})
            self.note(f"deleting {name}, {pod['metadata']['uid']}")
            self._later(lambda: self._remove(pod), self.draw.uniform(0, 1))
        return web.json_response(pod)

    def _run(self, pod: dict[str, Any]) -> None:
        found = self.objects[OWN_PODS].get(("default", pod["metadata"]["name"]))
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        program: dict[str, Any] = {"name": "notebook", "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
        program["state"] = {"running": {}}
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
        status = {"podIP": "127.0.0.1", "containerStatuses": [program], "conditions": conditions}
        self.put(
            OWN_PODS,
            {**found, "spec": {**found["spec"], "nodeName": "gpu-1"}, "status": {"phase": "Running", **status}},
        )

    def _remove(self, pod: dict[str, Any]) -> None:
        self.delete(OWN_PODS, pod)
        self.note(f"gone: {pod['metadata']['name']}, {pod['metadata']['uid']}")
        self.requests.clear()  # nothing here reads them, and a storm has thousands

    def _later(self, change: Callable[[], None], delay_s: float) -> None:
        async def wait() -> None:
            await asyncio.sleep(delay_s)
            change()

        self.tasks.add(task := asyncio.ensure_future(wait()))
        task.add_done_callback(self.tasks.discard)

    async def change_route(self, *_: object) -> None:
        """Do what the proxy does when a server starts or stops."""
        await self._pause()
        if self._draws(0.2):
            raise ConnectionError("the proxy does not answer")

    async def change_pod(self, pod: object) -> object:
        """Do what an admin's ``modify_pod_hook`` does that asks another service, and says so when it is cancelled."""
        try:
            await self._pause()
        except asyncio.CancelledError:
            await self._pause()
            raise
        return pod

    async def _pause(self) -> None:
        if self.is_stormy:
            await asyncio.sleep(self.draw.choice((0, 0.01, 0.1, 1)) * self.draw.random())

    def _draws(self, chance: float) -> bool:
        return self.is_stormy and self.draw.random() < chance

    def note(self, text: str) -> None:
        self.journal.append(f"{time.monotonic() - self.began_at:7.2f} {text}")

    def count(self, user: str) -> int:
        return sum(_count_gpus(pod) for pod in self.objects[OWN_PODS].values() if _owner(pod) == user)

    def list_pods(self) -> list[str]:
        return sorted(name for _, name in self.objects[OWN_PODS])


class StormyAuthenticator(DummyAuthenticator):
    """An authenticator that asks a slow identity provider before each start."""

    refresh_pre_spawn = True

    async def refresh_user(self, *_: object, **__: object) -> bool:
        await asyncio.sleep(0.2)
        return True


class FollowedSpawner(GPUSpawner):
    """A spawner that counts its starts that find an earlier start of the same object still open.

    :cvar followed: the number of these starts.
    """

    followed = 0

    async def begin_start(self, start: Callable[[], Awaitable[Any]]) -> Any:
        FollowedSpawner.followed += self.open_starts.have_earlier
        return await super().begin_start(start)


@dataclass(frozen=True)
class Aftermath:
    """What a storm has left.

    :ivar most: the largest number of GPUs that a user had at one instant.
    :ivar left: pods that are left although the hub has stopped all servers, and servers that it cannot stop.
    :ivar pods: number of pods that were created.
    :ivar followed: number of starts whose spawner had an earlier start that was open.
    :ivar answers: HTTP status → number of the hub's answers.
    """

    most: int
    left: list[str]
    pods: int
    followed: int
    answers: Counter[int]
    journal: list[str]

    def format(self) -> str:
        figures = f"{self.pods} pods, at most {self.most} GPUs of {LIMIT} for a user, left {self.left}"
        figures += f", {self.followed} starts followed an open start"
        answers = ", ".join(f"{number} × {status}" for status, number in sorted(self.answers.items()))
        return f"{figures}; answers of the hub: {answers}"


async def raise_storm(server: StormyServer, *, seed: int, seconds: float) -> Aftermath:
    """Let workers start, stop, rename and remove servers, then stop all servers.

    :param server: the API server, which the spawners use already.
    :param seed: of what is random.
    :param seconds: how long the workers work.
    """
    draw = server.draw = random.Random(seed)
    port, answers = unused_port(), Counter[int]()
    server.put(NODES, GPU_NODE, CPU_NODE)
    server.put(RUNTIME_CLASSES, NVIDIA_CLASS)
    proxy = SimpleNamespace(add_user=server.change_route, delete_user=server.change_route)
    hub = RealHub(
        _config(port, server), spawner_class=FollowedSpawner, authenticator=StormyAuthenticator(), proxy=proxy,
        **_HUB_SETTINGS,
    )  # fmt: skip
    FollowedSpawner.followed = 0
    for user in USERS:
        hub.add_user(user)
    # JupyterHub refuses in a task, which nothing awaits, to remove a server that was started again.
    asyncio.get_running_loop().set_exception_handler(lambda _, context: server.note(f"  {context.get('exception')!r}"))
    async with notebook(port):
        workers = [_work(hub, server, draw, answers=answers, seconds=seconds) for _ in range(WORKERS)]
        await asyncio.gather(*workers)
        server.is_stormy = False
        server.note("the storm is over")
        active = await _stop_all(hub, server)
        with contextlib.suppress(TimeoutError):
            await eventually(lambda: not server.list_pods(), timeout_s=5)
        left = [*server.list_pods(), *active]
        for task in server.tasks:
            task.cancel()
    most = max(server.most.values(), default=0)
    return Aftermath(most, left, server.created, FollowedSpawner.followed, answers, server.journal)


def _config(port: int, server: StormyServer) -> dict[str, Any]:
    a100 = {**SETTINGS["gpus"]["a100"], "start_timeout": 8}
    settings = {**SETTINGS, "gpus": {"a100": a100}, "policy": {"default": {"max_gpus": LIMIT}}, "capacity_timeout": 1}
    return {
        "GPUSpawner": settings,
        "KubeSpawner": {
            "port": port, "namespace": "default", "http_timeout": 4, "start_timeout": 8, "poll_interval": 1,
            "k8s_api_request_timeout": 1, "k8s_api_request_retry_timeout": 4, "consecutive_failure_limit": 0,
            "delete_grace_period": 0, "modify_pod_hook": lambda _, pod: server.change_pod(pod),
        },
    }  # fmt: skip


async def _work(
    hub: RealHub, server: StormyServer, draw: random.Random, *, answers: Counter[int], seconds: float
) -> None:
    async def ask(method: str, user: str, name: str, body: object = None) -> None:
        server.note(f"{method} {user}/{name} {body or ''}")
        if method == LEAVE:
            await asyncio.create_task(_cancel_and_leave(hub, user, name))
            return
        status = await hub.ask(method, user, name, body)
        server.note(f"  {status} {method} {user}/{name}")
        answers[status] += 1

    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        where = (draw.choice(USERS), draw.choice(SERVERS))
        options = {"image": "pytorch", "cpu": 1, "memory": "1G", "gpu": "a100", "gpu_count": draw.randint(1, LIMIT)}
        start, stop, leave = ("POST", *where, options), ("DELETE", *where), (LEAVE, *where)
        remove, rename = ("DELETE", *where, {"remove": True}), ("PATCH", *where, {"name": draw.choice(SERVERS)})
        steps: list[tuple[Any, ...]] = draw.choice(
            [
                [start], [start], [start, stop], [start, stop, start], [stop], [stop, start], [stop, stop, start],
                [start, stop, remove], [start, stop, rename], [stop, rename], [remove], [rename],
                [leave], [start, leave, stop, start], [leave, stop, start], [leave, stop, start],
            ]
        )  # fmt: skip
        await asyncio.gather(
            *(
                _wait(draw.choice((0, 0.1, 1.2, 3)) * draw.random() * place, ask(*step))
                for place, step in enumerate(steps)
            )
        )
        await asyncio.sleep(draw.random())


async def _cancel_and_leave(hub: RealHub, user: str, name: str) -> None:
    """Cancel a start, as a request does that goes away before it stops the server."""
    spawner = hub.find_user(user).spawners.get(name)
    if spawner is not None and spawner.pending == "spawn" and spawner._spawn_future:
        spawner._spawn_future.cancel()


async def _wait(delay_s: float, then: Coroutine[Any, Any, None]) -> None:
    await asyncio.sleep(delay_s)
    await then


async def _stop_all(hub: RealHub, server: StormyServer) -> list[str]:
    """Stop all servers, as users with patience would; return those that do not stop.

    JupyterHub does not stop a server whose start ended with an error of the hub's database. Such a server has no pod.
    """
    ends_at = time.monotonic() + _ENDS_S
    while (active := hub.list_active()) and (server.list_pods() or any(each.pending for each in active)):
        names = [(each, each.user.name, each.name) for each in active]  # a request may break the database's session
        if time.monotonic() > ends_at:
            return [f"{user}:{name}, pending {each.pending}, ready {each.ready}" for each, user, name in names]
        for spawner, user, name in names:
            if spawner.pending in {None, "spawn"}:
                server.note(f"stopping {user}:{name}")
                await hub.ask("DELETE", user, name)
        await asyncio.sleep(0.1)
    return []


def _refuse(request: web.Request, status: int, reason: str = "") -> web.Response:
    body = {"kind": "Status", "message": "no", "reason": reason, "code": status}
    if status == 409:
        body["message"] = f'pods "{request.path}" already exists'
    return web.json_response(body, status=status)


def _owner(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["annotations"]["hub.jupyter.org/username"])


def _count_gpus(pod: dict[str, Any]) -> int:
    return sum(int(each["resources"]["limits"].get(_GPU, 0)) for each in pod["spec"]["containers"])
