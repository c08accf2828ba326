"""Places in a queue: positions, as Kueue's visibility API tells them, and the reasons in Workloads and LocalQueues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.catalog.queue import QueueState
from gpuspawner.core.progress.model import QueuePlace
from gpuspawner.kube.resources.queue_places import (
    NEW_POD_S,
    QUEUE_CACHE_S,
    QUEUE_DENIED_S,
    QUEUE_SETUP_CACHE_S,
    QueuePlaces,
)
from tests.unit.clocks import Clock
from tests.unit.core import kueue_workloads as records
from tests.unit.core.kueue_workloads import local_queue, pending
from tests.unit.kube.watch_server import WatchServer

GROUP = "/apis/visibility.kueue.x-k8s.io"
PATH = "/namespaces/hub/localqueues/gpu-queue/pendingworkloads"
NEW, OLD = f"{GROUP}/v1beta2{PATH}", f"{GROUP}/v1beta1{PATH}"
WORKLOADS, QUEUES = (f"/apis/kueue.x-k8s.io/v1beta2/namespaces/hub/{plural}" for plural in ("workloads", "localqueues"))
OLD_WORKLOADS, OLD_QUEUES = (path.replace("v1beta2", "v1beta1") for path in (WORKLOADS, QUEUES))


def put(server: WatchServer, path: str, *objects: dict[str, Any]) -> None:
    """Have the server list these objects and no others."""
    server.objects[path] = {("", str(number)): each for number, each in enumerate(objects)}


@pytest.fixture
def server(cluster: WatchServer) -> WatchServer:
    """Serve a LocalQueue that works."""
    put(cluster, QUEUES, local_queue())
    return cluster


@pytest.fixture
async def places(server: WatchServer, clock: Clock) -> AsyncIterator[QueuePlaces]:
    async with ApiClient(Configuration(host=server.url)) as client:
        yield QueuePlaces(client, timeout_s=2.0, clock=clock, now=lambda: datetime(2026, 11, 23, 19, 30, tzinfo=UTC))


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


async def asked(places: QueuePlaces, of: dict[str, Any] | None = None) -> int | None:
    return (await places.find_place(of or pod(), queue="gpu-queue")).position


def asked_for(server: WatchServer, *paths: str) -> list[str]:
    return [request.path for request in server.requests if request.path in paths]


async def test_a_pod_is_found_by_what_its_workload_stands_for(server: WatchServer, places: QueuePlaces):
    server.bodies[NEW] = summary(workload("jupyter-eve", 0, uid="u-0"), workload("x", 3, uid="u-1", name="renamed"))
    assert await asked(places) == 3


async def test_a_pod_is_found_by_the_name_of_its_workload(server: WatchServer, places: QueuePlaces):
    server.bodies[NEW] = summary(workload("jupyter-ada-2", 0), workload("jupyter-ada", 2))
    assert await asked(places) == 2


async def test_the_first_place_is_nought_and_no_place_is_none(server: WatchServer, places: QueuePlaces):
    server.bodies[NEW] = summary(workload("jupyter-ada", 0))
    assert await asked(places) == 0
    assert await asked(places, pod("jupyter-bob", "u-2")) is None


async def test_an_older_kueue_is_asked_as_it_understands(server: WatchServer, places: QueuePlaces):
    server.status[NEW] = 404
    server.bodies[OLD] = summary(workload("jupyter-ada", 5), version="v1beta1")
    assert await asked(places) == 5
    assert asked_for(server, NEW, OLD) == [NEW, OLD]


async def test_without_kueue_there_is_no_place_and_it_is_asked_for_once_a_minute(
    server: WatchServer, places: QueuePlaces, clock: Clock
):
    server.status |= {NEW: 404, OLD: 404}
    for _ in range(3):
        assert await asked(places) is None
    clock.now += QUEUE_DENIED_S - 1
    assert await asked(places) is None
    assert asked_for(server, NEW, OLD) == [NEW, OLD]
    clock.now += 1.1
    await asked(places)
    assert asked_for(server, NEW, OLD) == [NEW, OLD, NEW, OLD]


async def test_without_the_right_there_is_no_place_and_no_second_question(server: WatchServer, places: QueuePlaces):
    server.status[NEW] = 403
    assert (await asked(places), await asked(places)) == (None, None)
    assert asked_for(server, NEW, OLD) == [NEW]


async def test_a_queue_is_read_once_for_all_who_ask_at_the_same_time(server: WatchServer, places: QueuePlaces):
    server.bodies[NEW] = summary(*(workload(f"jupyter-{number}", number) for number in range(50)))
    pods = [pod(f"jupyter-{number}", f"u-{number}") for number in range(50)]
    assert await asyncio.gather(*(asked(places, each) for each in pods)) == list(range(50))
    assert asked_for(server, NEW, OLD) == [NEW]


async def test_a_place_is_kept_for_some_seconds(server: WatchServer, places: QueuePlaces, clock: Clock):
    server.bodies[NEW] = summary(workload("jupyter-ada", 2))
    await asked(places)
    server.bodies[NEW] = summary(workload("jupyter-ada", 1))
    assert await asked(places) == 2
    clock.now += QUEUE_CACHE_S + 0.1
    assert await asked(places) == 1


@pytest.mark.parametrize(
    "body",
    ["nonsense", "[]", "{}", '{"items": [5, {}, {"metadata": {"name": "pod-jupyter-ada-1a2b3"}}]}', '{"items": null}'],
)
async def test_a_strange_answer_tells_no_place(server: WatchServer, places: QueuePlaces, body: str):
    server.bodies[NEW] = body
    assert await asked(places) is None


async def test_an_api_server_in_trouble_is_asked_again_soon(server: WatchServer, places: QueuePlaces, clock: Clock):
    server.status[NEW] = 503
    assert await asked(places) is None
    del server.status[NEW]
    server.bodies[NEW] = summary(workload("jupyter-ada", 0))
    clock.now += QUEUE_CACHE_S + 0.1
    assert await asked(places) == 0


# -- why Kueue does not admit it ---------------------------------------------------------------------------------------


@pytest.fixture
def kueue(server: WatchServer) -> WatchServer:
    """Serve a LocalQueue that works, and a pod that is the first in it."""
    server.bodies[NEW] = summary(workload("jupyter-ada", 0, uid="u-1"))
    return server


async def place_of(places: QueuePlaces, uid: str = "u-1") -> QueuePlace:
    return await places.find_place(pod(uid=uid), queue="gpu-queue")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(records.EXCEEDS_ALL_FLAVORS, QueueReason.EXCEEDS_QUOTA, id="exceeds the quota"),
        pytest.param(records.NO_MATCH, QueueReason.NO_FLAVOR, id="no flavor"),
        pytest.param(records.IN_USE, QueueReason.QUOTA_IN_USE, id="quota in use"),
    ],
)
async def test_the_workload_of_a_pod_says_why_it_waits(
    kueue: WatchServer, places: QueuePlaces, message: str, reason: QueueReason
):
    put(kueue, WORKLOADS, pending(message, pod_uid="u-1"))
    assert await place_of(places) == QueuePlace(position=0, queue="gpu-queue", reason=reason)


async def test_only_workloads_of_pods_that_wait_are_asked_for(kueue: WatchServer, places: QueuePlaces, clock: Clock):
    put(kueue, WORKLOADS, *(pending(records.IN_USE, pod_uid=uid) for uid in ("u-1", "u-2")))
    await place_of(places)
    clock.now += NEW_POD_S
    await place_of(places, "u-2")
    clock.now += 60
    await place_of(places, "u-2")
    asked_for = [request.query["labelSelector"] for request in kueue.requests if request.path == WORKLOADS]
    pods = ("u-1", "u-1,u-2", "u-2")
    assert asked_for == [f"kueue.x-k8s.io/job-uid in ({each})" for each in pods]


async def test_a_pod_that_joins_is_asked_for_a_second_later(kueue: WatchServer, places: QueuePlaces, clock: Clock):
    put(kueue, WORKLOADS, *(pending(records.IN_USE, pod_uid=uid) for uid in ("u-1", "u-2")))
    await place_of(places)
    assert (await place_of(places, "u-2")).reason is None
    clock.now += NEW_POD_S
    assert (await place_of(places, "u-2")).reason is QueueReason.QUOTA_IN_USE


async def test_very_many_pods_are_asked_for_in_several_requests(kueue: WatchServer, places: QueuePlaces, clock: Clock):
    uids = [f"u-{number}" for number in range(250)]
    put(kueue, WORKLOADS, *(pending(records.IN_USE, pod_uid=uid) for uid in uids))
    await asyncio.gather(*(place_of(places, uid) for uid in uids))
    clock.now += QUEUE_CACHE_S + 0.1
    kueue.requests.clear()
    found = await asyncio.gather(*(place_of(places, uid) for uid in uids))
    assert {each.reason for each in found} == {QueueReason.QUOTA_IN_USE}
    assert len([request for request in kueue.requests if request.path == WORKLOADS]) == 3


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        pytest.param([], QueueReason.NO_QUEUE, id="no LocalQueue"),
        pytest.param([local_queue(reason="ClusterQueueDoesNotExist")], QueueReason.NO_QUEUE, id="no ClusterQueue"),
        pytest.param([local_queue(reason="Stopped")], QueueReason.STOPPED, id="stopped"),
        pytest.param([local_queue(reason="ClusterQueueIsInactive")], QueueReason.INACTIVE, id="inactive"),
    ],
)
async def test_in_a_queue_that_admits_nothing_there_is_no_position(
    kueue: WatchServer, places: QueuePlaces, queues: list[Any], reason: QueueReason
):
    put(kueue, QUEUES, *queues)
    put(kueue, WORKLOADS, pending(records.IN_USE, pod_uid="u-1"))
    assert await place_of(places) == QueuePlace(queue="gpu-queue", reason=reason)
    (asked_for,) = (request.query["fieldSelector"] for request in kueue.requests if request.path == QUEUES)
    assert asked_for == "metadata.name=gpu-queue"


async def test_without_a_workload_kueue_has_not_taken_the_pod(kueue: WatchServer, places: QueuePlaces):
    kueue.bodies[NEW] = summary()
    assert await place_of(places) == QueuePlace(queue="gpu-queue", reason=QueueReason.NOT_TAKEN)


async def test_while_kueue_does_not_answer_nothing_is_said_of_a_pod_without_a_workload(
    kueue: WatchServer, places: QueuePlaces
):
    kueue.status[NEW] = 503
    assert await place_of(places) == QueuePlace(queue="gpu-queue")


@pytest.mark.parametrize("status", [403, 404, 503])
async def test_without_the_right_to_workloads_there_is_a_position_and_no_reason(
    kueue: WatchServer, places: QueuePlaces, status: int
):
    kueue.status |= dict.fromkeys((WORKLOADS, QUEUES, OLD_WORKLOADS, OLD_QUEUES), status)
    assert [await place_of(places) for _ in range(2)] == [QueuePlace(position=0, queue="gpu-queue")] * 2
    assert len([request for request in kueue.requests if request.path in (WORKLOADS, QUEUES)]) == 2


async def test_an_older_kueue_serves_workloads_in_its_own_version(kueue: WatchServer, places: QueuePlaces):
    kueue.status |= {WORKLOADS: 404, QUEUES: 404}
    put(kueue, OLD_QUEUES, local_queue())
    put(kueue, OLD_WORKLOADS, pending(records.IN_USE, pod_uid="u-1"))
    assert (await place_of(places)).reason is QueueReason.QUOTA_IN_USE


@pytest.mark.parametrize("body", ["nonsense", "[]", "{}", '{"items": null}', '{"items": 5}'])
async def test_a_strange_answer_says_neither_that_a_queue_is_missing_nor_a_workload(
    kueue: WatchServer, places: QueuePlaces, body: str
):
    kueue.bodies |= {WORKLOADS: body, QUEUES: body}
    assert await place_of(places) == QueuePlace(position=0, queue="gpu-queue")


@pytest.mark.parametrize(
    ("at", "seconds"),
    [("2026-11-23T19:32:00Z", 120.0), ("2026-11-23T19:29:00Z", 0.0), ("soon", None), ("2026-11-23", None)],
)
async def test_a_pod_that_was_sent_back_knows_when_it_is_considered_again(
    kueue: WatchServer, places: QueuePlaces, at: str, seconds: float | None
):
    later = {"requeueState": {"count": 1, "requeueAt": at}}
    put(kueue, WORKLOADS, pending("At least one admission check is false", pod_uid="u-1", **later))
    found = await place_of(places)
    assert (found.reason, found.requeue_s) == (QueueReason.REQUEUED, seconds)


# -- a queue before the pod exists -------------------------------------------------------------------------------------

API = "/apis/kueue.x-k8s.io/v1beta2"
CLUSTER_QUEUES, FLAVORS, CLASSES = (
    f"{API}/{plural}" for plural in ("clusterqueues", "resourceflavors", "workloadpriorityclasses")
)
WAITING = f"{GROUP}/v1beta2/clusterqueues/main/pendingworkloads"


@pytest.fixture
def quotas(server: WatchServer) -> WatchServer:
    """Serve what the LocalQueue stands on: a ClusterQueue in which two wait."""
    flavors = [{"name": "t4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 4}]}]
    spec = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]}
    cluster_queue = {"metadata": {"name": "main"}, "spec": spec, "status": {"pendingWorkloads": 2}}
    put(server, CLUSTER_QUEUES, cluster_queue)
    put(server, FLAVORS, {"metadata": {"name": "t4"}, "spec": {"nodeLabels": {"gpu": "T4"}}})
    put(server, CLASSES, {"metadata": {"name": "people"}, "value": 10})
    server.bodies[WAITING] = summary({"priority": 10}, {"priority": 0})
    return server


async def state_of(places: QueuePlaces, *, priority_class: str = "", **how: Any) -> QueueState:
    return await places.read_state("hub", "gpu-queue", priority_class=priority_class, priority=7, **how)


async def test_a_queue_is_known_by_its_quotas_and_who_waits_in_it(quotas: WatchServer, places: QueuePlaces):
    found = await state_of(places)
    assert (found.name, found.namespace, found.problem, found.waiting, found.priority) == (
        "gpu-queue",
        "hub",
        None,
        (10, 0),
        7,
    )
    assert found.capacity is not None
    assert [flavor.most for _, flavors in found.capacity.groups for flavor in flavors] == [{"nvidia.com/gpu": 4}]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("people", (10, "")), ("strange", (None, "")), ("missing", (None, "missing")), ("", (7, ""))],
    ids=["known", "strange value", "missing", "none"],
)
async def test_the_priority_class_of_the_queue_decides_where_there_is_one(
    quotas: WatchServer, places: QueuePlaces, name: str, expected: tuple[int | None, str]
):
    quotas.put(CLASSES, {"metadata": {"name": "strange"}, "value": "high"})
    found = await state_of(places, priority_class=name)
    assert (found.priority, found.missing_class) == expected


async def test_no_priority_class_is_missing_where_they_cannot_be_read(quotas: WatchServer, places: QueuePlaces):
    quotas.status[CLASSES] = 403
    found = await state_of(places, priority_class="missing")
    assert (found.priority, found.missing_class) == (None, "")


async def test_the_waiting_pods_are_not_read_where_none_waits(quotas: WatchServer, places: QueuePlaces):
    (cluster_queue,) = quotas.objects[CLUSTER_QUEUES].values()
    cluster_queue["status"]["pendingWorkloads"] = 0
    found = await state_of(places)
    assert (found.count_ahead(), asked_for(quotas, WAITING)) == (0, [])


@pytest.mark.parametrize("priority", [None, "10", True], ids=repr)
async def test_with_a_strange_priority_it_is_unknown_who_is_ahead(
    quotas: WatchServer, places: QueuePlaces, priority: object
):
    quotas.bodies[WAITING] = summary({"priority": 10}, {"priority": priority})
    found = await state_of(places)
    assert (found.capacity is not None, found.waiting, found.count_ahead()) == (True, None, None)


@pytest.mark.parametrize(
    ("refused", "known"),
    [
        pytest.param((QUEUES,), (False, False), id="LocalQueues"),
        pytest.param((CLUSTER_QUEUES,), (False, False), id="ClusterQueues"),
        pytest.param((FLAVORS,), (True, True), id="flavors"),
        pytest.param((WAITING,), (True, False), id="who waits"),
    ],
)
async def test_what_may_not_be_read_is_unknown_and_is_asked_for_once_a_minute(
    quotas: WatchServer, places: QueuePlaces, clock: Clock, refused: tuple[str, ...], known: tuple[bool, bool]
):
    quotas.status |= dict.fromkeys(refused, 403)
    for _ in range(3):
        found = await state_of(places)
        assert (found.problem, found.capacity is not None, found.waiting is not None) == (None, *known)
        clock.now += QUEUE_CACHE_S + 1
    assert sorted(asked_for(quotas, *refused)) == sorted(refused)


async def test_a_missing_queue_is_a_problem_and_a_missing_kueue_is_none(
    quotas: WatchServer, places: QueuePlaces, clock: Clock
):
    put(quotas, QUEUES)
    assert (await state_of(places)).problem is QueueReason.NO_QUEUE
    clock.now += QUEUE_CACHE_S + 1
    quotas.status |= dict.fromkeys((QUEUES, OLD_QUEUES), 404)
    assert (await state_of(places)).problem is None


async def test_of_an_inactive_queue_it_is_known_whether_an_admin_has_stopped_it(
    quotas: WatchServer, places: QueuePlaces, clock: Clock
):
    put(quotas, QUEUES, local_queue(reason="ClusterQueueIsInactive"))
    first = await state_of(places)
    put(quotas, CLUSTER_QUEUES, {"metadata": {"name": "main"}, "spec": {"stopPolicy": "Hold"}})
    clock.now += QUEUE_CACHE_S + 1
    second = await state_of(places)
    assert [(each.problem, each.capacity and each.capacity.is_stopped) for each in (first, second)] == [
        (QueueReason.INACTIVE, False),
        (QueueReason.INACTIVE, True),
    ]
    assert asked_for(quotas, WAITING) == []


async def test_what_changes_is_read_again_and_what_only_admins_change_less_often(
    quotas: WatchServer, places: QueuePlaces, clock: Clock
):
    first = await state_of(places, priority_class="people")
    clock.now += QUEUE_CACHE_S + 1
    put(quotas, CLUSTER_QUEUES, {"metadata": {"name": "main"}, "spec": {}})
    second = await state_of(places, priority_class="people")
    assert (len(first.capacity.groups) if first.capacity else None, second.capacity and second.capacity.groups) == (
        1,
        (),
    )
    setup = (FLAVORS, CLASSES)
    assert sorted(asked_for(quotas, *setup)) == sorted(setup)
    clock.now += QUEUE_SETUP_CACHE_S
    await state_of(places, priority_class="people")
    assert len(asked_for(quotas, *setup)) == 2 * len(setup)


async def test_the_age_is_that_of_the_oldest_answer(quotas: WatchServer, places: QueuePlaces, clock: Clock):
    await state_of(places)
    clock.now += 8
    quotas.held |= {QUEUES, CLUSTER_QUEUES}
    found = await state_of(places, wait_s=0.05)
    without = await state_of(places)
    assert (found.capacity is not None, found.age_s) == (True, 8)
    # Both requests have failed by now.
    assert without.capacity is None


@pytest.mark.parametrize(
    ("path", "kept_s"), [(QUEUES, QUEUE_CACHE_S), (CLUSTER_QUEUES, QUEUE_CACHE_S), (CLASSES, QUEUE_SETUP_CACHE_S)]
)
async def test_while_kueue_hangs_what_was_read_counts_twice_as_long(
    quotas: WatchServer, places: QueuePlaces, clock: Clock, path: str, kept_s: float
):
    def describe(state: QueueState) -> object:
        return {QUEUES: state.problem, CLUSTER_QUEUES: state.capacity, CLASSES: state.priority}[path]

    if path == QUEUES:
        put(quotas, QUEUES)
    await state_of(places, priority_class="people")
    quotas.held.add(path)
    clock.now += 2 * kept_s - 1
    assert describe(await state_of(places, priority_class="people", wait_s=0.3)) is not None
    clock.now += 2
    assert describe(await state_of(places, priority_class="people", wait_s=0.3)) is None
    await state_of(places, priority_class="people")  # waits until the request for the held objects has failed


async def test_after_an_unexpected_error_the_next_request_waits(places: QueuePlaces, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    async def fail(path: str, *_: object, **__: object) -> object:
        asked.append(path)
        raise ZeroDivisionError

    monkeypatch.setattr(places, "_send", fail)
    for _ in range(3):
        assert (await places._read_waiting("gpus", wait_s=None)).value is None
    assert len(asked) == 1
