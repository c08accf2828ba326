"""Every way to fail is one error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.requests import APIUnavailableError, body_of, send, unavailable
from tests.unit.kube.list_server import ListServer

NODES = "/api/v1/nodes"


async def test_an_answer_comes_back_raw(server: ListServer, api: CoreV1Api):
    server.bodies[NODES] = '{"a": 1}'
    assert await body_of(await send(api.list_node)) == b'{"a": 1}'


async def test_arguments_reach_the_api_server(server: ListServer, api: CoreV1Api):
    (await send(api.list_node, limit=3)).close()
    assert server.requests[0].query["limit"] == "3"


@pytest.mark.parametrize("status", [401, 403, 410, 429, 500])
async def test_a_refusal_carries_its_status(server: ListServer, api: CoreV1Api, status: int):
    server.status[NODES] = status
    with pytest.raises(APIUnavailableError) as refused:
        await send(api.list_node)
    assert refused.value.status == status


async def test_no_answer_in_time_has_no_status(server: ListServer, api: CoreV1Api):
    server.gate.clear()
    with pytest.raises(APIUnavailableError) as refused:
        await send(api.list_node, _request_timeout=0.05)
    assert (refused.value.status, str(refused.value)) == (None, "no answer in time")


async def test_no_server_has_no_status(make_api: Callable[[str], CoreV1Api]):
    with pytest.raises(APIUnavailableError) as refused:
        await send(make_api("http://127.0.0.1:1").list_node)
    assert refused.value.status is None


def test_a_failure_without_words_is_named_after_its_type():
    assert str(unavailable(ConnectionResetError())) == "ConnectionResetError"
