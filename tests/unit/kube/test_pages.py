"""Lists are read page by page, and whatever is no list is one kind of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.pages import APIUnavailableError, list_all
from tests.unit.kube.list_server import ListServer

NODES = "/api/v1/nodes"


def name(raw: Any) -> str:
    return str(raw["metadata"]["name"])


async def names(api: CoreV1Api, *, page_size: int = 2, timeout_s: float = 5.0) -> list[str]:
    return await list_all(api.list_node, name, page_size=page_size, timeout_s=timeout_s)


async def test_all_pages_are_read_in_order(server: ListServer, api: CoreV1Api):
    server.objects[NODES] = [{"metadata": {"name": f"n{number}"}} for number in range(5)]
    assert await names(api) == ["n0", "n1", "n2", "n3", "n4"]


async def test_each_page_is_asked_for_with_the_token_of_the_one_before(server: ListServer, api: CoreV1Api):
    server.objects[NODES] = [{"metadata": {"name": f"n{number}"}} for number in range(5)]
    await names(api)
    asked = [(request.query["limit"], request.query.get("continue")) for request in server.requests]
    assert asked == [("2", None), ("2", "2"), ("2", "4")]


async def test_selectors_reach_the_api_server(server: ListServer, api: CoreV1Api):
    await list_all(api.list_pod_for_all_namespaces, name, page_size=2, timeout_s=5, field_selector="spec.nodeName=a")
    assert server.requests[0].query["fieldSelector"] == "spec.nodeName=a"


async def test_an_empty_list_has_nothing(server: ListServer, api: CoreV1Api):
    assert await names(api) == []


async def test_a_refusal_carries_its_status(server: ListServer, api: CoreV1Api):
    server.status[NODES] = 403
    with pytest.raises(APIUnavailableError) as refused:
        await names(api)
    assert refused.value.status == 403


async def test_no_answer_in_time_is_an_error_without_a_status(server: ListServer, api: CoreV1Api):
    server.gate.clear()
    with pytest.raises(APIUnavailableError) as refused:
        await names(api, timeout_s=0.05)
    assert refused.value.status is None


async def test_a_server_that_is_not_there_is_an_error_without_a_status(make_api: Callable[[str], CoreV1Api]):
    with pytest.raises(APIUnavailableError) as refused:
        await names(make_api("http://127.0.0.1:1"))
    assert refused.value.status is None


@pytest.mark.parametrize("body", ["", "<html>", "[]", "null", "3"])
async def test_an_answer_that_is_no_list_is_an_error(server: ListServer, api: CoreV1Api, body: str):
    server.bodies[NODES] = body
    with pytest.raises(APIUnavailableError):
        await names(api)


@pytest.mark.parametrize("body", ['{"items": null}', '{"metadata": 3}', '{"items": {}, "metadata": {"continue": 7}}'])
async def test_a_list_without_items_is_empty(server: ListServer, api: CoreV1Api, body: str):
    server.bodies[NODES] = body
    assert await names(api) == []
