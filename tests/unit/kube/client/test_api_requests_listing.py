"""A list is read in pages and handed over object by object; what is no list is an error, never an empty cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.client.api_requests import (
    MAX_BODY_BYTES,
    MAX_PAGE_BYTES,
    APIUnavailableError,
    BodyTooLargeError,
    list_each,
)
from gpuspawner.kube.client.pacing import SLICE_S
from tests.unit.kube.watch_server import NODES, WatchServer, node


async def listed(api: CoreV1Api, *, limit: int = 2) -> tuple[list[str], str]:
    found: list[Any] = []
    version = await list_each(api.list_node, found.append, limit=limit)
    return [raw["metadata"]["name"] for raw in found], version


async def test_all_pages_are_read_in_order(cluster: WatchServer, cluster_api: CoreV1Api):
    cluster.put(NODES, *(node(f"n{number}") for number in range(5)))
    assert await listed(cluster_api) == (["n0", "n1", "n2", "n3", "n4"], str(cluster.version))
    asked = [(request.query["limit"], request.query.get("continue")) for request in cluster.requests]
    assert asked == [("2", None), ("2", "2"), ("2", "4")]


class Arrived:
    """A page of which everything has arrived."""

    status = 200

    def __init__(self, text: str) -> None:
        self.content = self
        self._text = text

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self._text.encode()

    def close(self) -> None:
        """Do nothing: there is no connection."""


async def test_the_event_loop_gets_turns_within_a_page_that_has_arrived():
    page = Arrived(json.dumps({"metadata": {"resourceVersion": "1"}, "items": [node(f"n{n}") for n in range(30)]}))

    async def method(**_: Any) -> Arrived:
        return page

    kept: list[Any] = []

    def keep(raw: object) -> None:
        kept.append(raw)
        time.sleep(SLICE_S)

    reading = asyncio.create_task(list_each(method, keep, limit=100))
    seen = set()
    while not reading.done():
        await asyncio.sleep(0)
        seen.add(len(kept))
    assert seen == set(range(1, 31))


def large_node(name: str, size: int) -> dict[str, Any]:
    return node(name, annotations={"large": "x" * size})


async def test_a_page_that_is_too_large_is_read_in_smaller_ones(cluster: WatchServer, cluster_api: CoreV1Api):
    sizes = [10, 10, MAX_PAGE_BYTES, 10, 10, 10, 10, 10]
    cluster.put(NODES, *(large_node(f"n{number}", size) for number, size in enumerate(sizes)))
    assert (await listed(cluster_api, limit=4))[0] == [f"n{number}" for number in range(8)]
    asked = [(request.query.get("continue"), request.query["limit"]) for request in cluster.requests]
    assert asked == [(None, "4"), (None, "2"), ("2", "4"), ("2", "2"), ("2", "1"), ("3", "2"), ("5", "4")]


async def test_an_object_that_is_too_large_for_kubernetes_makes_no_cluster(
    cluster: WatchServer, cluster_api: CoreV1Api
):
    cluster.put(NODES, large_node("n0", MAX_BODY_BYTES), node("n1"))
    with pytest.raises(BodyTooLargeError):
        await listed(cluster_api)


async def test_managed_fields_that_are_nested_too_deeply_take_no_object_away(
    cluster: WatchServer, cluster_api: CoreV1Api
):
    fields = '{"f:a":' * 5000 + "{}" + "}" * 5000
    managers = f'[{{"manager":"x","fieldsV1":{fields}}}]'
    items = [f'{{"metadata":{{"name":"n{n}","managedFields":{managers}}},"spec":{{"n":{n}}}}}' for n in range(3)]
    cluster.bodies[NODES] = f'{{"metadata":{{"resourceVersion":"7"}},"items":[{",".join(items)}]}}'
    assert await listed(cluster_api) == (["n0", "n1", "n2"], "7")


@pytest.mark.parametrize("items", ["[3, null, []]", "null", "[]"])
async def test_items_that_are_no_objects_are_left_out(cluster: WatchServer, cluster_api: CoreV1Api, items: str):
    cluster.bodies[NODES] = f'{{"items": {items}, "metadata": {{"resourceVersion": "7"}}}}'
    assert await listed(cluster_api) == ([], "7")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        "[]",
        "null",
        "3",
        '{"kind": "Status"}',
        '{"items": []}',
        '{"items": [], "metadata": {}}',
        '{"items": [], "metadata": {"resourceVersion": 7}}',
        '{"metadata": {"resourceVersion": "7"}}',
        '{"items": [], "metadata": {"resourceVersion": "7"}',
        '{"items": [' + "[" * 100_000,
    ],
)
async def test_an_answer_that_is_no_list_is_an_error(cluster: WatchServer, cluster_api: CoreV1Api, body: str):
    cluster.bodies[NODES] = body
    with pytest.raises(APIUnavailableError):
        await listed(cluster_api)
