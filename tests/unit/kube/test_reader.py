"""One inventory for everybody, a few seconds old at most, that says what it does not know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.inventory import Inventory
from gpuspawner.kube.reader import ClusterReader
from tests.unit.kube.list_server import ListServer

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"

NODE = {
    "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.present": "true"}},
    "status": {"allocatable": {"nvidia.com/gpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
POD = {
    "metadata": {"name": "p1", "namespace": "other"},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
    "status": {"phase": "Running"},
}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(server: ListServer, api: CoreV1Api, clock: Clock) -> ClusterReader:
    server.objects = {NODES: [NODE], PODS: [POD]}
    return ClusterReader(api, clock=clock, request_timeout_s=5.0)


def count(server: ListServer, path: str) -> int:
    return sum(request.path == path for request in server.requests)


async def test_nodes_and_pods_become_an_inventory(reader: ClusterReader):
    inventory = await reader.inventory()
    assert inventory.nodes is not None
    assert inventory.pods is not None
    assert [(node.name, node.allocatable["nvidia.com/gpu"]) for node in inventory.nodes] == [("n1", 4)]
    assert [(pod.name, pod.requests["nvidia.com/gpu"]) for pod in inventory.pods] == [("p1", 1)]
    assert inventory.reason == ""


async def test_only_pods_that_are_not_finished_are_asked_for(reader: ClusterReader, server: ListServer):
    await reader.inventory()
    (asked,) = [request for request in server.requests if request.path == PODS]
    assert asked.query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


async def test_who_asks_at_the_same_time_gets_the_same_reading(reader: ClusterReader, server: ListServer):
    inventories = await asyncio.gather(*(reader.inventory() for _ in range(20)))
    assert all(inventory is inventories[0] for inventory in inventories)
    assert count(server, NODES) == 1


async def test_an_inventory_is_used_until_it_is_too_old(reader: ClusterReader, server: ListServer, clock: Clock):
    first = await reader.inventory()
    clock.now += 4.9
    assert await reader.inventory() is first
    clock.now += 0.2
    assert await reader.inventory() is not first
    assert count(server, NODES) == 2


async def test_without_the_right_to_list_nodes_nothing_is_known(reader: ClusterReader, server: ListServer):
    server.status[NODES] = 403
    assert await reader.inventory() == Inventory(reason="The hub may not list the cluster's nodes.")


async def test_without_the_right_to_list_pods_the_nodes_are_known(reader: ClusterReader, server: ListServer):
    server.status[PODS] = 403
    inventory = await reader.inventory()
    assert inventory.nodes is not None
    assert (inventory.pods, inventory.reason) == (None, "The hub may not list the pods of all namespaces.")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "Kubernetes refused the hub's credentials."),
        (429, "The Kubernetes API server is overloaded."),
        (500, "The Kubernetes API server answered with an error (500)."),
        (599, "The Kubernetes API server answered with an error (599)."),
    ],
)
async def test_an_error_is_told_in_one_sentence(reader: ClusterReader, server: ListServer, status: int, reason: str):
    server.status[NODES] = status
    assert await reader.inventory() == Inventory(reason=reason)


async def test_without_an_api_server_nothing_is_known(make_api: Callable[[str], CoreV1Api]):
    reader = ClusterReader(make_api("http://127.0.0.1:1"))
    assert await reader.inventory() == Inventory(reason="The Kubernetes API server cannot be reached.")


async def test_a_failure_is_not_repeated_at_once(reader: ClusterReader, server: ListServer):
    server.status[NODES] = 500
    await reader.inventory()
    await reader.inventory()
    assert count(server, NODES) == 1


async def test_after_a_failure_the_cluster_is_read_again(reader: ClusterReader, server: ListServer, clock: Clock):
    server.status[NODES] = 500
    await reader.inventory()
    server.status.clear()
    clock.now += 6
    assert (await reader.inventory()).nodes is not None


async def test_an_older_inventory_is_not_shown_after_a_failure(reader: ClusterReader, server: ListServer, clock: Clock):
    await reader.inventory()
    server.status[NODES] = 500
    clock.now += 6
    assert (await reader.inventory()).nodes is None


async def test_who_stops_waiting_does_not_stop_the_reading(reader: ClusterReader, server: ListServer):
    server.gate.clear()
    impatient = asyncio.create_task(reader.inventory())
    patient = asyncio.create_task(reader.inventory())
    await server.asked.wait()
    impatient.cancel()
    server.gate.set()
    assert (await patient).nodes is not None


async def test_the_log_says_once_what_cannot_be_read_and_when_it_can_again(
    server: ListServer, api: CoreV1Api, clock: Clock, caplog: pytest.LogCaptureFixture
):
    reader = ClusterReader(api, clock=clock, log=logging.getLogger("test"))
    server.status[PODS] = 403
    for _ in range(3):
        clock.now += 6
        await reader.inventory()
    server.status.clear()
    clock.now += 6
    await reader.inventory()
    assert caplog.messages == [
        "Capacity: The hub may not list the pods of all namespaces.",
        "Capacity: Everything can be read again.",
    ]
