"""The rest of quotas, read from a server that has some."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.policy.usage import RemainingQuota
from gpuspawner.kube.resources.resource_quotas import QUOTA_CACHE_S, QUOTA_DENIED_S, QUOTA_RETRY_S, ResourceQuotas
from tests.unit.clocks import Clock
from tests.unit.kube.watch_server import WatchServer

PATH = "/api/v1/namespaces/hub/resourcequotas"
FOUR = {
    "metadata": {"name": "gpus"},
    "status": {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": "1"}},
}


@pytest.fixture
def cluster(cluster: WatchServer) -> WatchServer:
    cluster.put(PATH, FOUR)
    return cluster


async def test_a_namespace_without_quotas_has_none(cluster_api: CoreV1Api):
    assert await ResourceQuotas(cluster_api).read_remaining("elsewhere") is None


@pytest.mark.parametrize(
    ("answer", "holds_s"),
    [
        ({}, QUOTA_CACHE_S),
        ({"status": 403}, QUOTA_DENIED_S),
        ({"status": 500}, QUOTA_RETRY_S),
        ({"body": "no JSON"}, QUOTA_RETRY_S),
    ],
    ids=["read", "forbidden", "failed", "no JSON"],
)
async def test_an_answer_holds_for_a_while(
    cluster: WatchServer, cluster_api: CoreV1Api, clock: Clock, answer: dict[str, Any], holds_s: float
):
    cluster.status |= {PATH: answer["status"]} if "status" in answer else {}
    cluster.bodies |= {PATH: answer["body"]} if "body" in answer else {}
    quotas = ResourceQuotas(cluster_api, clock=clock)
    found = []
    for passed_s in (0.0, holds_s - 0.1, 0.2):
        clock.now += passed_s
        found.append(await quotas.read_remaining("hub"))
    left = None if answer else RemainingQuota(left={"requests.nvidia.com/gpu": 3})
    assert (found, len(cluster.requests)) == ([left] * 3, 2)


async def test_a_caller_that_needs_it_newer_has_it_read_again_but_for_a_refusal(
    cluster: WatchServer, cluster_api: CoreV1Api
):
    quotas = ResourceQuotas(cluster_api)
    await quotas.read_remaining("hub")
    await quotas.read_remaining("hub", max_age_s=0)
    cluster.status[PATH] = 403
    await quotas.read_remaining("hub", max_age_s=0)
    await quotas.read_remaining("hub", max_age_s=0)
    assert len(cluster.requests) == 3
