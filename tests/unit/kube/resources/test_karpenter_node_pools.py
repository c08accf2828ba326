"""Karpenter's NodePools are read now and then, and it does no harm where they cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.resources.karpenter_node_pools import (
    NODE_POOLS_ABSENT_S,
    NODE_POOLS_INTERVAL_S,
    NODE_POOLS_MAX_AGE_S,
    KarpenterNodePools,
)
from tests.unit.kube.watch_server import NODE_POOLS as PATH
from tests.unit.kube.watch_server import REVIEWS, WatchServer, eventually, node_pool

VERSION = "/apis/karpenter.sh/v1"


class Steps:
    """Time that passes when a test says so.

    :ivar asked: how long each pause was to be, in seconds.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[float] = []
        self._over = asyncio.Event()

    def clock(self) -> float:
        return self.now

    async def sleep(self, pause_s: float) -> None:
        self.asked.append(pause_s)
        self._over = asyncio.Event()
        await self._over.wait()

    async def go_on(self) -> None:
        """End the pause, and wait for the next one."""
        number = len(self.asked)
        self.now += self.asked[-1]
        self._over.set()
        await eventually(lambda: len(self.asked) > number)


@pytest.fixture
def steps() -> Steps:
    return Steps()


Reading = Callable[[], Any]


@pytest.fixture
async def read(cluster_api: CoreV1Api, steps: Steps) -> AsyncIterator[Reading]:
    """Return what begins to read and waits for the first pause."""
    tasks: list[asyncio.Task[None]] = []

    async def begin() -> KarpenterNodePools:
        found = KarpenterNodePools(
            cluster_api.api_client,
            clock=steps.clock,
            answer_s=5,
            sleep=steps.sleep,
        )
        assert found.scalable_node_pools is None
        tasks.append(asyncio.create_task(found.run()))
        await eventually(lambda: steps.asked)
        return found

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def names(found: KarpenterNodePools) -> list[str] | None:
    return None if found.scalable_node_pools is None else [each.name for each in found.scalable_node_pools]


async def test_all_pages_are_read_and_read_again(cluster: WatchServer, read: Reading, steps: Steps):
    cluster.put(PATH, *(node_pool(f"p{number}") for number in range(101)))
    found = await read()
    assert len(names(found) or []) == 101
    assert found.first_attempt.is_set()
    for number in range(101):
        cluster.delete(PATH, node_pool(f"p{number}"))
    cluster.put(PATH, node_pool("new"))
    await steps.go_on()
    assert (names(found), steps.asked, found.generation) == (["new"], [NODE_POOLS_INTERVAL_S, NODE_POOLS_INTERVAL_S], 2)


def asked(cluster: WatchServer) -> list[str]:
    return [request.path for request in cluster.requests]


async def test_a_resource_that_was_there_needs_no_question_about_rights(
    cluster: WatchServer, read: Reading, steps: Steps
):
    cluster.put(PATH, node_pool("p"))
    await read()
    await steps.go_on()
    assert [path for path in asked(cluster) if path in (REVIEWS, PATH)] == [REVIEWS, PATH, PATH]


@pytest.mark.parametrize("is_there", [True, False])
async def test_without_the_right_nothing_is_listed_and_only_what_is_not_served_is_known(
    cluster: WatchServer, read: Reading, steps: Steps, is_there: bool
):
    cluster.denied = {("list", "nodepools")}
    cluster.status = {} if is_there else {VERSION: 404}
    cluster.put(PATH, node_pool("p"))
    found = await read()
    assert (names(found), found.first_attempt.is_set(), steps.asked) == (
        None if is_there else [],
        True,
        [NODE_POOLS_ABSENT_S],
    )
    assert PATH not in asked(cluster)


async def test_a_right_that_is_given_later_is_noticed(cluster: WatchServer, read: Reading, steps: Steps):
    cluster.denied = {("list", "nodepools")}
    cluster.put(PATH, node_pool("p"))
    found = await read()
    cluster.denied = set()
    await steps.go_on()
    assert names(found) == ["p"]


async def test_a_right_that_is_taken_away_is_noticed(cluster: WatchServer, read: Reading, steps: Steps):
    cluster.put(PATH, node_pool("p"))
    found = await read()
    cluster.denied = {("list", "nodepools")}
    await steps.go_on()
    assert (names(found), steps.asked, found.generation) == (None, [NODE_POOLS_INTERVAL_S, NODE_POOLS_INTERVAL_S], 2)
    await steps.go_on()
    assert steps.asked == [NODE_POOLS_INTERVAL_S, NODE_POOLS_INTERVAL_S, NODE_POOLS_ABSENT_S]


async def test_a_cluster_without_karpenter_has_none(cluster: WatchServer, read: Reading, steps: Steps):
    cluster.status = {VERSION: 404, PATH: 404}
    found = await read()
    assert (names(found), found.first_attempt.is_set(), steps.asked) == ([], True, [NODE_POOLS_ABSENT_S])


@pytest.mark.parametrize(
    ("status", "pause_s"),
    [
        *((status, NODE_POOLS_ABSENT_S) for status in (403, 404)),
        *((status, NODE_POOLS_INTERVAL_S) for status in (401, 429, 500, 503)),
    ],
)
async def test_node_pools_that_are_served_and_refused_are_unknown(
    cluster: WatchServer, read: Reading, steps: Steps, status: int, pause_s: float
):
    cluster.status[PATH] = status
    found = await read()
    assert (names(found), found.first_attempt.is_set(), steps.asked) == (None, True, [pause_s])


async def test_objects_that_make_no_sense_are_left_out(cluster: WatchServer, read: Reading, steps: Steps):
    cluster.bodies[PATH] = (
        '{"items": [3, {}, {"metadata": {"name": "p"}, "spec": []}], "metadata": {"resourceVersion": "1"}}'
    )
    assert names(await read()) == ["p"]


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_node_pools_are_kept_for_a_while(cluster: WatchServer, read: Reading, steps: Steps, status: int):
    cluster.put(PATH, node_pool("p"))
    found = await read()
    cluster.status[PATH] = status
    kept = []
    for _ in range(int(NODE_POOLS_MAX_AGE_S / NODE_POOLS_INTERVAL_S)):
        await steps.go_on()
        kept.append(names(found))
    assert kept == [["p"]] * 9
    steps.now += 1
    assert names(found) is None
    await steps.go_on()
    assert names(found) is None


async def test_a_karpenter_that_is_removed_is_noticed(cluster: WatchServer, read: Reading, steps: Steps):
    cluster.put(PATH, node_pool("p"))
    found = await read()
    cluster.status = {VERSION: 404, PATH: 404}
    await steps.go_on()
    assert (names(found), steps.asked) == ([], [NODE_POOLS_INTERVAL_S, NODE_POOLS_ABSENT_S])


async def test_a_hanging_api_server_holds_up_no_request(cluster: WatchServer, cluster_api: CoreV1Api, steps: Steps):
    cluster.held.add(PATH)
    found = KarpenterNodePools(cluster_api.api_client, clock=steps.clock, answer_s=0.05, sleep=steps.sleep)
    task = asyncio.create_task(found.run())
    await eventually(lambda: steps.asked)
    assert (names(found), found.first_attempt.is_set()) == (None, True)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
