"""A start does not parse the API server's answer to its pod; everything else reads answers as before."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from kubernetes_asyncio.client import CoreV1Api, V1ObjectMeta, V1Pod, V1PodSpec
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.hub.kubespawner.private_api import create_for_kubespawner, make_pod_creating_api
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.preflight import send_pod
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.kube.watch_server import WatchServer

PODS = ("POST", "/api/v1/namespaces/default/pods")
POD = V1Pod(metadata=V1ObjectMeta(name="jupyter-ada"))


@pytest.fixture
async def spawner(make_spawner: MakeSpawner, server: WatchServer) -> GPUSpawner:
    server.answers[PODS] = lambda _: web.json_response({"metadata": {"name": "jupyter-ada", "uid": "1"}}, status=201)
    return make_spawner()


@pytest.fixture
async def api(spawner: GPUSpawner) -> Any:
    return spawner.api


async def test_a_hook_that_creates_a_pod_gets_it(api: Any):
    made = await api.create_namespaced_pod("default", POD)
    assert (made.metadata.name, made.metadata.uid) == ("jupyter-ada", "1")


async def test_a_start_creates_its_pod_and_reads_no_answer(spawner: GPUSpawner, server: WatchServer):
    pod = V1Pod(metadata=V1ObjectMeta(name="jupyter-ada"), spec=V1PodSpec(containers=[]))
    send = partial(spawner.api.create_namespaced_pod, "default")
    assert await send_pod(spawner, pod, send=send, is_repeated=False) is None
    assert [(each.method, each.path) for each in server.requests].count(PODS) == 1


@pytest.mark.parametrize("context", [create_for_kubespawner, nullcontext])
async def test_a_refusal_is_an_error_with_the_api_servers_words(api: Any, server: WatchServer, context: Any):
    refusal = {"message": 'pods "jupyter-ada" is forbidden: exceeded quota'}
    server.answers[PODS] = lambda _: web.json_response(refusal, status=403)
    with context(), pytest.raises(ApiException) as raised:
        await api.create_namespaced_pod("default", POD)
    assert raised.value.status == 403
    assert raised.value.body == '{"message": "pods \\"jupyter-ada\\" is forbidden: exceeded quota"}'


async def test_all_spawners_share_one_connection_and_one_store(make_spawner: MakeSpawner):
    first, second = make_spawner().api, make_spawner().api
    assert first.api_client is second.api_client
    assert GPUSpawner.offer_factory.get_store(first) is GPUSpawner.offer_factory.get_store(second)


def test_a_sites_own_client_is_left_alone():
    class OwnAPI(CoreV1Api):
        pass

    own = OwnAPI(api_client=object())
    assert make_pod_creating_api(own) is own


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param("Conflict", TimeoutError, id="a quota is updated at the same moment"),
        pytest.param("AlreadyExists", ApiException, id="the pod exists"),
        pytest.param("", ApiException, id="unknown"),
    ],
)
async def test_kubespawner_repeats_a_request_that_conflicts_with_another(
    api: Any, server: WatchServer, reason: str, expected: type[Exception]
):
    server.answers[PODS] = lambda _: web.json_response({"reason": reason}, status=409)
    with create_for_kubespawner(), pytest.raises(expected):
        await api.create_namespaced_pod("default", POD)
