"""Every way to fail is one error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.client.api_requests import (
    APIUnavailableError,
    BodyTooLargeError,
    make_unavailable_error,
    read_body,
    send_request,
)
from tests.unit.kube.watch_server import WatchServer

NODES = "/api/v1/nodes"


async def test_arguments_reach_the_api_server(cluster: WatchServer, cluster_api: CoreV1Api):
    (await send_request(cluster_api.list_node, limit=3)).close()
    assert cluster.requests[0].query["limit"] == "3"


@pytest.mark.parametrize("status", [401, 403, 410, 429, 500])
async def test_a_refusal_carries_its_status(cluster: WatchServer, cluster_api: CoreV1Api, status: int):
    cluster.status[NODES] = status
    with pytest.raises(APIUnavailableError) as refused:
        await send_request(cluster_api.list_node)
    assert refused.value.status == status


async def test_no_answer_in_time_has_no_status(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.open_.clear()
    with pytest.raises(APIUnavailableError) as refused:
        await send_request(cluster_api.list_node, _request_timeout=0.05)
    assert (refused.value.status, str(refused.value)) == (None, "no answer in time")


async def test_no_server_has_no_status(make_api: Callable[[str], CoreV1Api]):
    with pytest.raises(APIUnavailableError) as refused:
        await send_request(make_api("http://127.0.0.1:1").list_node)
    assert refused.value.status is None


def test_a_failure_without_words_is_named_after_its_type():
    assert str(make_unavailable_error(ConnectionResetError())) == "ConnectionResetError"


async def test_an_answer_that_is_too_large_is_refused_and_closed(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.bodies[NODES] = "x" * 1001
    response = await send_request(cluster_api.list_node)
    with pytest.raises(BodyTooLargeError):
        await read_body(response, max_bytes=1000)
    assert response.closed


async def test_an_answer_of_the_largest_size_is_read(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.bodies[NODES] = "x" * 1000
    assert await read_body(await send_request(cluster_api.list_node), max_bytes=1000) == b"x" * 1000
