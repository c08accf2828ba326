"""Places in a queue, as Kueue's visibility API tells them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration

from gpuspawner.kube.resources.queue_positions import QUEUE_CACHE_S, QUEUE_DENIED_S, QueuePositions
from tests.unit.clocks import Clock
from tests.unit.kube.list_server import ListServer, serve

GROUP = "/apis/visibility.kueue.x-k8s.io"
PATH = "/namespaces/hub/localqueues/gpu-queue/pendingworkloads"
NEW, OLD = f"{GROUP}/v1beta2{PATH}", f"{GROUP}/v1beta1{PATH}"


@pytest.fixture
async def server() -> AsyncIterator[ListServer]:
    async with serve() as answering:
        yield answering


@pytest.fixture
async def places(server: ListServer, clock: Clock) -> AsyncIterator[QueuePositions]:
    async with ApiClient(Configuration(host=server.url)) as client:
        yield QueuePositions(client, timeout_s=2.0, clock=clock)


def workload(pod: str, place: int, *, uid: str = "", name: str = "") -> dict[str, Any]:
    """Return an entry as Kueue 0.14 and later send it; older ones leave the owner out."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    return {
        "metadata": {
            "name": name or f"pod-{pod}-1a2b3",
            "namespace": "hub",
            "creationTimestamp": "2026-11-22T10:00:00Z",
            **({"ownerReferences": [owner]} if uid else {}),
        },
        "priority": 0,
        "localQueueName": "gpu-queue",
        "positionInClusterQueue": place,
        "positionInLocalQueue": 0,
    }


def summary(*items: object, version: str = "v1beta2") -> str:
    kind = {"kind": "PendingWorkloadsSummary", "apiVersion": f"visibility.kueue.x-k8s.io/{version}", "metadata": {}}
    return json.dumps({**kind, "items": list(items)})


def pod(name: str = "jupyter-ada", uid: str = "u-1") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "hub", "uid": uid}}


async def asked(places: QueuePositions, of: dict[str, Any] | None = None) -> int | None:
    return await places.find_position(of or pod(), queue="gpu-queue")


async def test_a_pod_is_found_by_what_its_workload_stands_for(server: ListServer, places: QueuePositions):
    server.bodies[NEW] = summary(workload("jupyter-eve", 0, uid="u-0"), workload("x", 3, uid="u-1", name="renamed"))
    assert await asked(places) == 3


async def test_a_pod_is_found_by_the_name_of_its_workload(server: ListServer, places: QueuePositions):
    server.bodies[NEW] = summary(workload("jupyter-ada-2", 0), workload("jupyter-ada", 2))
    assert await asked(places) == 2


async def test_the_first_place_is_nought_and_no_place_is_none(server: ListServer, places: QueuePositions):
    server.bodies[NEW] = summary(workload("jupyter-ada", 0))
    assert await asked(places) == 0
    assert await asked(places, pod("jupyter-bob", "u-2")) is None


async def test_an_older_kueue_is_asked_as_it_understands(server: ListServer, places: QueuePositions):
    server.status[NEW] = 404
    server.bodies[OLD] = summary(workload("jupyter-ada", 5), version="v1beta1")
    assert await asked(places) == 5
    assert [request.path for request in server.requests] == [NEW, OLD]


async def test_without_kueue_there_is_no_place_and_it_is_asked_for_once_a_minute(
    server: ListServer, places: QueuePositions, clock: Clock
):
    server.status |= {NEW: 404, OLD: 404}
    for _ in range(3):
        assert await asked(places) is None
    clock.now += QUEUE_DENIED_S - 1
    assert await asked(places) is None
    assert len(server.requests) == 2
    clock.now += 1.1
    await asked(places)
    assert len(server.requests) == 4


async def test_without_the_right_there_is_no_place_and_no_second_question(server: ListServer, places: QueuePositions):
    server.status[NEW] = 403
    assert (await asked(places), await asked(places)) == (None, None)
    assert [request.path for request in server.requests] == [NEW]


async def test_a_queue_is_read_once_for_all_who_ask_at_the_same_time(server: ListServer, places: QueuePositions):
    server.bodies[NEW] = summary(*(workload(f"jupyter-{number}", number) for number in range(50)))
    pods = [pod(f"jupyter-{number}", f"u-{number}") for number in range(50)]
    assert await asyncio.gather(*(asked(places, each) for each in pods)) == list(range(50))
    assert len(server.requests) == 1


async def test_a_place_is_kept_for_some_seconds(server: ListServer, places: QueuePositions, clock: Clock):
    server.bodies[NEW] = summary(workload("jupyter-ada", 2))
    await asked(places)
    server.bodies[NEW] = summary(workload("jupyter-ada", 1))
    assert await asked(places) == 2
    clock.now += QUEUE_CACHE_S + 0.1
    assert await asked(places) == 1


async def test_whoever_gives_up_takes_the_answer_from_nobody(server: ListServer, places: QueuePositions):
    server.gate.clear()
    server.bodies[NEW] = summary(workload("jupyter-ada", 2))
    first, second = (asyncio.ensure_future(asked(places)) for _ in range(2))
    await server.asked.wait()
    first.cancel()
    server.gate.set()
    assert await second == 2
    assert first.cancelled()


@pytest.mark.parametrize(
    "body",
    ["nonsense", "[]", "{}", '{"items": [5, {}, {"metadata": {"name": "pod-jupyter-ada-1a2b3"}}]}', '{"items": null}'],
)
async def test_a_strange_answer_tells_no_place(server: ListServer, places: QueuePositions, body: str):
    server.bodies[NEW] = body
    assert await asked(places) is None


async def test_an_api_server_in_trouble_is_asked_again_soon(server: ListServer, places: QueuePositions, clock: Clock):
    server.status[NEW] = 503
    assert await asked(places) is None
    del server.status[NEW]
    server.bodies[NEW] = summary(workload("jupyter-ada", 0))
    clock.now += QUEUE_CACHE_S + 0.1
    assert await asked(places) == 0
