"""LimitRanges are read once a minute, and are unknown where the hub may not read them."""

from __future__ import annotations

import pytest
from kubernetes_asyncio import client

from gpuspawner.kube.resources.resource_quotas import LIMIT_RANGE_CACHE_S, LimitRanges
from tests.unit.clocks import Clock
from tests.unit.kube.watch_server import WatchServer

PATH = "/api/v1/namespaces/hub/limitranges"
FIRST = {"metadata": {"name": "a"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]}}
SECOND = {"metadata": {"name": "b"}, "spec": {"limits": []}}


async def test_they_are_read_once_a_minute(cluster_api: client.CoreV1Api, cluster: WatchServer):
    clock = Clock()
    limit_ranges = LimitRanges(cluster_api, clock=clock)
    cluster.put(PATH, FIRST)
    first = await limit_ranges.read("hub")
    cluster.put(PATH, SECOND)
    again = await limit_ranges.read("hub")
    clock.now += LIMIT_RANGE_CACHE_S
    later = await limit_ranges.read("hub")
    counts = tuple(map(len, (first, again, later)))
    assert (counts, len(cluster.asked(PATH, watch=False))) == ((1, 1, 2), 2)


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_without_an_answer_there_are_none(cluster_api: client.CoreV1Api, cluster: WatchServer, status: int):
    cluster.put(PATH, FIRST)
    cluster.status[PATH] = status
    assert list(await LimitRanges(cluster_api).read("hub")) == []
