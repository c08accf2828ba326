"""A start that a restart of the hub has cut off ends with a reason, and goes on where only its story cannot be told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from jupyterhub import orm
from jupyterhub.user import User
from traitlets.log import get_logger

from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.counts import sample
from tests.unit.hub.followed import pod_that_waits
from tests.unit.hub.hub_requests import RealHub
from tests.unit.hub.real_hub import notebook, unused_port
from tests.unit.hub.starts import GPU_OPTIONS
from tests.unit.kube.watch_server import WatchServer

OWN_PODS = "/api/v1/namespaces/default/pods"
SENT = {"gpuspawner": {"start": {"timeout_s": 60.0}}}
TRY_AGAIN = "The hub could not finish the start of your server. Please start it again."


class BlindSpawner(GPUSpawner):
    """A spawner that cannot tell what the cluster has."""

    async def make_offer(self) -> Offer:
        raise RuntimeError("blind")


class Proxy:
    """JupyterHub's proxy.

    :ivar routes: what it is asked for, in order.
    """

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.routes = failure, []

    async def add_user(self, user: User, _: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.routes.append(user.name)

    async def delete_user(self, user: User, _: str) -> None:
        self.routes.remove(user.name)


class EventLog:
    """JupyterHub's log of events, which is full."""

    def emit(self, **_: Any) -> None:
        raise OSError("no space left on device")


async def resume(
    make_spawner: MakeSpawner,
    server: WatchServer,
    *,
    spawner_class: type[GPUSpawner] = GPUSpawner,
    state: dict[str, Any] = SENT,
    port: int = 0,
    proxy: Proxy | None = None,
    options: dict[str, Any] = GPU_OPTIONS,
    phase: str = "Running",
    **config: Any,
) -> tuple[GPUSpawner, BaseException | None]:
    """Have a new hub find a server that was starting; return its spawner and what the start ended with."""
    kubespawner = {"port": port or unused_port(), "http_timeout": 1, "delete_grace_period": 0, **config}
    hub = RealHub({"GPUSpawner": SETTINGS, "KubeSpawner": kubespawner}, spawner_class=spawner_class)
    hub.settings |= {"proxy": proxy or Proxy(), "eventlog": EventLog()}
    user, db = hub.add_user("ada"), hub.settings["db"]
    row = user.orm_user.orm_spawners[""]
    row.server, row.started = orm.Server(), datetime.now(UTC).replace(tzinfo=None)
    row.state, row.user_options = state, options
    db.commit()
    if phase:
        put_pod(server, await existing_pod(make_spawner, kubespawner, phase))
    spawner = user.spawners[""]
    start = private_api.get_spawn_future(spawner)
    async with asyncio.timeout(20):
        (failure,) = await asyncio.gather(start, return_exceptions=True)
    return spawner, failure


async def existing_pod(make_spawner: MakeSpawner, kubespawner: dict[str, Any], phase: str) -> dict[str, Any]:
    pod = await pod_that_waits(make_spawner(kubespawner=kubespawner), GPU_OPTIONS)
    ready = {"name": "notebook", "ready": True, "restartCount": 0, "state": {"running": {}}}
    pod["status"] = {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [ready]}
    return pod


def put_pod(server: WatchServer, pod: dict[str, Any]) -> None:
    """Have the API server hold a pod until it is deleted."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"

    def delete(_: object) -> web.Response:
        server.delete(path, pod)
        return web.json_response({"kind": "Status"})

    server.put(path, pod)
    server.answers["DELETE", f"{path}/{pod['metadata']['name']}"] = delete


def read_end(spawner: GPUSpawner) -> Any:
    """Return why the server ended as the database has it."""
    spawner.db.expire_all()
    return (spawner.orm_spawner.state.get("gpuspawner") or {}).get("end")


async def test_a_start_goes_on_although_its_messages_cannot_be_sent(make_spawner: MakeSpawner, server: WatchServer):
    port, proxy = unused_port(), Proxy()
    async with notebook(port):
        spawner, failure = await resume(make_spawner, server, spawner_class=BlindSpawner, port=port, proxy=proxy)
    assert (failure, proxy.routes, read_end(spawner)) == (None, ["ada"], None)
    assert (spawner.server.ip, spawner.server.port) == ("127.0.0.1", port)
    spawner.stop_polling()


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        pytest.param({"state": {}, "phase": ""}, "interrupted", "The hub was restarted before", id="no pod"),
        pytest.param(
            {"phase": "Failed"}, "crashed", "The program of your server ended", id="ended while the hub was down"
        ),
        pytest.param({}, "timeout", "Your server started but did not answer within 1 second, so", id="never answers"),
        pytest.param({"proxy": Proxy(RuntimeError("down")), "answers": True}, "error", TRY_AGAIN, id="has no route"),
        pytest.param({"get_pod_url": lambda *_: 1 / 0}, "error", TRY_AGAIN, id="the admin's function fails"),
        pytest.param(
            {"state": {}, "phase": "", "spawner_class": BlindSpawner},
            "interrupted",
            "The hub was restarted before",
            id="no pod, and the cluster is not known",
        ),
    ],
)
async def test_each_resumed_start_that_ends_has_a_reason(
    make_spawner: MakeSpawner, server: WatchServer, caplog: Any, given: dict[str, Any], code: str, message: str
):
    get_logger().addHandler(caplog.handler)
    given, port = dict(given), unused_port()
    label = "other" if given.get("spawner_class") else "a100"
    before = sample("spawns_total", gpu=label, outcome=code)
    async with notebook(port if given.pop("answers", False) else unused_port()):
        spawner, failure = await resume(make_spawner, server, port=port, **given)
    get_logger().removeHandler(caplog.handler)
    end = read_end(spawner)
    assert (end["code"], end["message"][: len(message)]) == (code, message)
    assert isinstance(failure, Exception)
    assert sample("spawns_total", gpu=label, outcome=code) - before == 1
    assert f"has failed ({code})" in caplog.text
    assert spawner.orm_spawner.server is None
    assert list(server.objects[OWN_PODS].values()) == []


async def test_fields_of_the_site_do_not_hide_the_gpu_that_a_start_waits_for(
    make_spawner: MakeSpawner, server: WatchServer
):
    port, options = unused_port(), {**GPU_OPTIONS, "repo_url": "https://x"}
    async with notebook(port):
        spawner, _ = await resume(make_spawner, server, port=port, options=options, extra_options=["repo_url"])
    assert spawner.start_state.feed.gpu is not None
    spawner.stop_polling()


async def test_a_hub_that_may_not_list_pods_asks_the_servers_themselves(make_spawner: MakeSpawner, server: WatchServer):
    """JupyterHub checks at its start whether servers run, and each would stay pending."""
    spawner = make_spawner(kubespawner={"k8s_api_request_retry_timeout": 1})
    spawner._check_pending = True
    server.denied.add(("list", "pods"))
    async with asyncio.timeout(10):
        assert await spawner.poll() is None
