"""One inventory for all users, always at once, that says how old it is and what it does not know."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.cluster.decode import decode_priority_class, decode_runtime_class
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.kube.store import MIDDLE_PER_FULL, STALE_AFTER_S, YOUNG_OBJECTS, ClusterStore, StoreTiming
from gpuspawner.kube.watch.watch import WatchTiming
from gpuspawner.kube.watch.watch_loop import RetryDelays
from tests.unit.clocks import Clock
from tests.unit.kube.watch_server import (
    HANG,
    NODE_POOLS,
    NODES,
    NVIDIA_CLASS,
    PODS,
    PRIORITY_CLASSES,
    REVIEWS,
    RUNTIME_CLASSES,
    WatchServer,
    eventually,
    node,
    node_pool,
    pod,
)

RESOURCE = "nvidia.com/gpu"
UNREACHABLE = "The Kubernetes API server cannot be reached."
TIMING = WatchTiming(answer_s=5, watch_s=10, grace_s=5, settle_s=0.02, batch_s=0.02)
PAUSES = RetryDelays(first_s=0.005, longest_s=0.02, lost_s=0.02, never_had_s=0.02)


MakeStore = Callable[..., ClusterStore]


@pytest.fixture
async def make_store(cluster_api: CoreV1Api, clock: Clock) -> AsyncIterator[MakeStore]:
    stores: list[ClusterStore] = []

    def make(
        api: CoreV1Api | None = None, *, first_sync_timeout_s: float = 5.0, timing: WatchTiming = TIMING
    ) -> ClusterStore:
        pace = StoreTiming(first_sync_timeout_s=first_sync_timeout_s, timing=timing, pauses=PAUSES, clock=clock)
        stores.append(ClusterStore(api or cluster_api, pace=pace, log=logging.getLogger("test")))
        return stores[-1]

    yield make
    for store in stores:
        await store.stop()


@pytest.fixture
def store(cluster: WatchServer, make_store: MakeStore) -> ClusterStore:
    cluster.put(NODES, node("n1", gpus=4))
    cluster.put(PODS, pod("p1", gpus=1))
    return make_store()


async def free(store: ClusterStore) -> int | None:
    inventory = await store.read_inventory()
    return None if inventory.occupancy is None else inventory.occupancy.get_free("n1")[RESOURCE]


def followers() -> list[object]:
    """List the running tasks that are a store's; the server's run in the same loop."""
    return [task for task in asyncio.all_tasks() if "WatchLoop" in getattr(task.get_coro(), "__qualname__", "")]


async def until(store: ClusterStore, condition: Callable[[Inventory], object]) -> Inventory:
    """Ask until an answer is as expected."""
    async with asyncio.timeout(10):
        while not condition(inventory := await store.read_inventory()):  # noqa: ASYNC110  # an answer is no event
            await asyncio.sleep(0.002)
    return inventory


async def test_the_first_question_waits_for_the_cluster(store: ClusterStore):
    inventory = await store.read_inventory()
    assert inventory.nodes is not None
    assert [each.name for each in inventory.nodes] == ["n1"]
    assert inventory.occupancy.get_free("n1")[RESOURCE] == 3
    assert (inventory.reason, inventory.age_s) == ("", 0.0)


async def test_only_pods_that_are_not_finished_are_followed(store: ClusterStore, cluster: WatchServer):
    await store.read_inventory()
    await eventually(lambda: cluster.asked(PODS, watch=True))
    asked = [each.query["fieldSelector"] for watch in (False, True) for each in cluster.asked(PODS, watch=watch)]
    assert asked == ["status.phase!=Succeeded,status.phase!=Failed"] * 2


async def test_who_asks_at_the_same_time_shares_one_reading(store: ClusterStore, cluster: WatchServer):
    await asyncio.gather(*(store.read_inventory() for _ in range(20)))
    assert len(cluster.asked(NODES, watch=False)) == 1


async def test_changes_show_without_another_list(store: ClusterStore, cluster: WatchServer):
    before = (await store.read_inventory()).generation
    cluster.put(PODS, pod("p2", gpus=2))
    await until(store, lambda inventory: inventory.occupancy.get_free("n1")[RESOURCE] == 1)
    cluster.delete(PODS, pod("p1"))
    inventory = await until(store, lambda inventory: inventory.occupancy.get_free("n1")[RESOURCE] == 2)
    assert inventory.generation > before
    assert len(cluster.asked(PODS, watch=False)) == 1


async def test_the_same_again_is_no_new_generation(store: ClusterStore, cluster: WatchServer):
    before = (await store.read_inventory()).generation
    cluster.put(NODES, node("n1", gpus=4))
    cluster.put(NODES, node("n2"))
    inventory = await until(store, lambda inventory: len(inventory.nodes) == 2)
    assert inventory.generation == before + 1


async def test_an_answer_does_not_wait_for_a_slow_first_reading(cluster: WatchServer, make_store: MakeStore):
    cluster.open_.clear()
    store = make_store(first_sync_timeout_s=0.05)
    expected = "The cluster is still being read; open this page again in a few seconds."
    assert (await store.read_inventory()).reason == expected
    async with asyncio.timeout(0.04):
        assert (await store.read_inventory()).reason == expected
    cluster.open_.set()
    await until(store, lambda inventory: inventory.occupancy is not None)


async def test_a_slow_first_reading_cancels_no_task_that_waits_for_it(cluster: WatchServer, make_store: MakeStore):
    cluster.open_.clear()
    reading = asyncio.create_task(make_store(first_sync_timeout_s=0.05).read_inventory())
    cancellations = set()
    while not reading.done():
        cancellations.add(reading.cancelling())
        await asyncio.sleep(0)
    cluster.open_.set()
    assert cancellations == {0}


async def test_nodes_are_known_while_pods_are_still_being_read(cluster: WatchServer, make_store: MakeStore):
    cluster.put(NODES, node("n1"))
    cluster.status[PODS] = 500
    inventory = await make_store().read_inventory()
    assert inventory.nodes is not None
    assert (inventory.occupancy, inventory.age_s) == (None, 0.0)
    assert inventory.reason == "The Kubernetes API server answered with an error (500)."


async def test_without_an_api_server_nothing_is_known(make_api: Callable[[str], CoreV1Api], make_store: MakeStore):
    inventory = await make_store(make_api("http://127.0.0.1:1")).read_inventory()
    assert (inventory.nodes, inventory.occupancy, inventory.age_s, inventory.reason) == (None, None, None, UNREACHABLE)


async def test_without_the_right_to_read_nodes_nothing_is_known(store: ClusterStore, cluster: WatchServer):
    cluster.denied = {("list", "nodes")}
    inventory = await store.read_inventory()
    assert (inventory.nodes, inventory.occupancy) == (None, None)
    assert inventory.reason == "The hub may not list the cluster's nodes."


async def test_without_the_right_to_read_pods_the_nodes_are_known(store: ClusterStore, cluster: WatchServer):
    cluster.denied = {("watch", "pods")}
    inventory = await store.read_inventory()
    assert inventory.nodes is not None
    assert (inventory.occupancy, inventory.reason) == (None, "The hub may not watch the pods of all namespaces.")
    assert inventory.empty_occupancy.nodes == inventory.nodes
    assert (await store.read_inventory()).empty_occupancy is inventory.empty_occupancy
    assert cluster.asked(PODS, watch=False) == []


async def test_rights_are_found_out_where_they_cannot_be_asked_for(store: ClusterStore, cluster: WatchServer):
    cluster.status = {REVIEWS: 403, PODS: 403}
    inventory = await store.read_inventory()
    assert (inventory.occupancy, inventory.reason) == (None, "The hub may not list the pods of all namespaces.")


async def test_a_right_given_at_run_time_is_used(store: ClusterStore, cluster: WatchServer):
    cluster.denied = {("list", "pods")}
    before = await store.read_inventory()
    cluster.denied.clear()
    after = await until(store, lambda inventory: inventory.occupancy is not None)
    assert (await free(store), after.generation > before.generation) == (3, True)


async def test_a_right_taken_at_run_time_leaves_no_old_count(store: ClusterStore, cluster: WatchServer):
    before = await store.read_inventory()
    await eventually(lambda: len(cluster.streams) == 2)
    cluster.denied = {("watch", "pods")}
    cluster.cut()
    after = await until(store, lambda inventory: inventory.occupancy is None)
    assert after.generation > before.generation
    assert after.nodes is not None
    cluster.delete(PODS, pod("p1"))
    cluster.denied.clear()
    await until(store, lambda inventory: inventory.occupancy is not None)
    assert await free(store) == 4


async def test_the_resource_that_was_confirmed_longer_ago_decides(
    store: ClusterStore, cluster: WatchServer, clock: Clock
):
    cluster.scripts[NODES] = [[HANG]]
    cluster.lifetime_s = 0.05
    await store.read_inventory()
    await eventually(lambda: cluster.asked(NODES, watch=True))
    clock.now += 30
    asked = len(cluster.asked(PODS, watch=True))
    await eventually(lambda: len(cluster.asked(PODS, watch=True)) > asked + 2)
    inventory = await store.read_inventory()
    assert (inventory.age_s, inventory.reason) == (30, "")


async def test_a_watch_confirms_again_and_again(cluster: WatchServer, make_store: MakeStore, clock: Clock):
    cluster.lifetime_s = 0.05
    store = make_store()
    await store.read_inventory()
    clock.now += 1000
    inventory = await until(store, lambda inventory: inventory.age_s == 0)
    assert inventory.reason == ""


async def test_old_data_is_served_with_its_age_and_a_reason_that_the_log_says_once(
    store: ClusterStore, cluster: WatchServer, clock: Clock, caplog: pytest.LogCaptureFixture
):
    await store.read_inventory()
    await eventually(lambda: len(cluster.streams) == 2)
    cluster.status = {NODES: 503, PODS: 503}
    cluster.cut()
    await eventually(lambda: len(cluster.asked(PODS, watch=True)) > 3)
    assert (await store.read_inventory()).reason == ""
    clock.now += STALE_AFTER_S + 1
    inventory = await store.read_inventory()
    assert inventory.occupancy is not None
    assert inventory.age_s is not None
    assert inventory.age_s > STALE_AFTER_S
    assert inventory.reason == "The Kubernetes API server answered with an error (503)."
    # A request that was on its way would confirm nothing but the moment it was sent.
    for path in (NODES, PODS):
        asked = len(cluster.asked(path, watch=True))
        await eventually(lambda path=path, asked=asked: len(cluster.asked(path, watch=True)) > asked + 1)
    cluster.status = {}
    await until(store, lambda inventory: inventory.age_s == 0 and not inventory.reason)
    assert caplog.messages == [
        "Capacity: The Kubernetes API server answered with an error (503).",
        "Capacity: Everything can be read again.",
    ]


async def test_a_list_that_is_read_again_leaves_no_gap(store: ClusterStore, cluster: WatchServer):
    await store.read_inventory()
    await eventually(lambda: len(cluster.streams) == 2)
    cluster.delete(PODS, pod("p1"))
    cluster.put(PODS, pod("p2", gpus=4))
    cluster.expire()
    cluster.cut()
    seen: set[int | None] = set()
    while len(cluster.asked(PODS, watch=False)) < 2 or len(cluster.streams) < 2:
        seen.add(await free(store))
        await asyncio.sleep(0)
    await until(store, lambda inventory: inventory.occupancy.get_free("n1")[RESOURCE] == 0)
    assert None not in seen


async def test_stopping_leaves_no_task(store: ClusterStore):
    await store.read_inventory()
    assert len(followers()) == 6
    await store.stop()
    assert followers() == []
    assert await store.read_inventory() == Inventory(reason="The hub is shutting down.")


async def test_who_stops_waiting_does_not_stop_the_reading(store: ClusterStore, cluster: WatchServer):
    cluster.open_.clear()
    impatient = asyncio.create_task(store.read_inventory())
    await eventually(lambda: cluster.requests)
    impatient.cancel()
    cluster.open_.set()
    assert (await store.read_inventory()).occupancy is not None


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("thresholds")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((700, 9, 8), (YOUNG_OBJECTS, 9, MIDDLE_PER_FULL), id="usual"),
        pytest.param((50_000, 9, 800), (50_000, 9, 800), id="rarer still"),
        pytest.param((0, 9, 8), (0, 9, 8), id="off"),
    ],
)
async def test_a_page_of_a_list_leads_to_few_garbage_collections(
    store: ClusterStore, before: tuple[int, int, int], after: tuple[int, int, int]
):
    gc.set_threshold(*before)
    await store.read_inventory()
    assert gc.get_threshold() == after


@pytest.mark.usefixtures("thresholds")
async def test_later_garbage_collections_leave_the_first_lists_out(store: ClusterStore):
    gc.unfreeze()
    await store.read_inventory()
    await eventually(gc.get_freeze_count)


async def test_what_may_be_added_is_known_with_the_first_answer(cluster: WatchServer, store: ClusterStore):
    cluster.put(NODE_POOLS, node_pool("p"))
    inventory = await store.read_inventory()
    assert inventory.scalable_pools is not None
    assert [each.name for each in inventory.scalable_pools] == ["p"]


@pytest.mark.parametrize(
    ("path", "status", "scalable_pools"), [(NODE_POOLS.rpartition("/")[0], 404, ()), (NODE_POOLS, 500, None)]
)
async def test_what_may_be_added_may_be_unknown_and_nothing_else_suffers(
    cluster: WatchServer, store: ClusterStore, path: str, status: int, scalable_pools: tuple[()] | None
):
    cluster.status[path] = status
    inventory = await store.read_inventory()
    assert (inventory.scalable_pools, inventory.reason, inventory.age_s) == (scalable_pools, "", 0.0)
    assert inventory.occupancy is not None


async def test_the_first_question_waits_for_what_may_be_added(cluster: WatchServer, make_store: MakeStore):
    cluster.held.add(NODE_POOLS)
    store = make_store(timing=replace(TIMING, answer_s=0.5))
    question = asyncio.create_task(store.read_inventory())
    await eventually(lambda: store._nodes.first_attempt.is_set() and store._pods.first_attempt.is_set())
    await asyncio.sleep(0)
    assert not question.done()
    assert (await question).scalable_pools is None


async def test_age_and_restarts_are_there_to_be_read_at_any_time(
    store: ClusterStore, cluster: WatchServer, clock: Clock
):
    assert (store.age_s, store.restarts) == (None, {"nodes": 0, "pods": 0})
    await store.read_inventory()
    clock.now += 3
    assert store.age_s == 3
    cluster.status[NODES] = 500
    await eventually(lambda: store.restarts["nodes"])
    assert store.restarts["pods"] == 0


class FollowedClass(NamedTuple):
    """Classes that the store follows: their attribute of an inventory, their path, one of them, and how it is read."""

    attribute: str
    path: str
    raw: dict[str, Any]
    change: dict[str, Any]
    decode: Callable[[object], object]


FOLLOWED_CLASSES = [
    FollowedClass(
        "priority_classes",
        PRIORITY_CLASSES,
        {"metadata": {"name": "low"}, "value": -10},
        {"value": -20},
        decode_priority_class,
    ),
    FollowedClass(
        "runtime_classes",
        RUNTIME_CLASSES,
        NVIDIA_CLASS,
        {"overhead": {"podFixed": {"cpu": "250m"}}},
        decode_runtime_class,
    ),
]
each_class = pytest.mark.parametrize("kind", FOLLOWED_CLASSES, ids=lambda kind: kind.attribute)


@each_class
async def test_classes_are_known_with_the_first_answer_and_followed(
    cluster: WatchServer, store: ClusterStore, kind: FollowedClass
):
    cluster.put(kind.path, kind.raw)
    first = await store.read_inventory()
    assert getattr(first, kind.attribute) == (kind.decode(kind.raw),)
    changed = kind.raw | kind.change
    cluster.put(kind.path, changed)
    later = await until(store, lambda inventory: getattr(inventory, kind.attribute) == (kind.decode(changed),))
    assert later.generation > first.generation


@each_class
async def test_classes_may_be_unknown_and_nothing_else_suffers(
    cluster: WatchServer, store: ClusterStore, kind: FollowedClass
):
    for each in FOLLOWED_CLASSES:
        cluster.put(each.path, each.raw)
    plural = kind.path.rpartition("/")[2]
    cluster.denied |= {("list", plural), ("watch", plural)}
    inventory = await store.read_inventory()
    known = {each.attribute: getattr(inventory, each.attribute) is not None for each in FOLLOWED_CLASSES}
    assert known == {each.attribute: each is not kind for each in FOLLOWED_CLASSES}
    assert (inventory.reason, inventory.age_s) == ("", 0.0)
    cluster.denied.clear()
    await until(store, lambda inventory: getattr(inventory, kind.attribute) == (kind.decode(kind.raw),))
