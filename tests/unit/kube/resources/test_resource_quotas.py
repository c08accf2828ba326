"""The rest of quotas, read from a server that has some."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.policy.usage import RemainingQuota
from gpuspawner.kube.resources.resource_quotas import QUOTA_CACHE_S, QUOTA_DENIED_S, QUOTA_RETRY_S, ResourceQuotas
from tests.unit.clocks import Clock
from tests.unit.kube.list_server import ListServer

PATH = "/api/v1/namespaces/hub/resourcequotas"
FOUR = {"status": {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": "1"}}}


@pytest.fixture
def server(server: ListServer) -> ListServer:
    server.objects[PATH] = [FOUR]
    return server


async def test_a_namespace_without_quotas_has_none(api: CoreV1Api):
    assert await ResourceQuotas(api).read_remaining("elsewhere") is None


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
    server: ListServer, api: CoreV1Api, clock: Clock, answer: dict[str, Any], holds_s: float
):
    server.status |= {PATH: answer["status"]} if "status" in answer else {}
    server.bodies |= {PATH: answer["body"]} if "body" in answer else {}
    quotas = ResourceQuotas(api, clock=clock)
    found = []
    for passed_s in (0.0, holds_s - 0.1, 0.2):
        clock.now += passed_s
        found.append(await quotas.read_remaining("hub"))
    left = None if answer else RemainingQuota(left={"requests.nvidia.com/gpu": 3})
    assert (found, len(server.requests)) == ([left] * 3, 2)


async def test_a_caller_that_needs_it_newer_has_it_read_again_but_for_a_refusal(server: ListServer, api: CoreV1Api):
    quotas = ResourceQuotas(api)
    await quotas.read_remaining("hub")
    await quotas.read_remaining("hub", max_age_s=0)
    server.status[PATH] = 403
    await quotas.read_remaining("hub", max_age_s=0)
    await quotas.read_remaining("hub", max_age_s=0)
    assert len(server.requests) == 3


async def test_many_share_one_request_and_one_who_leaves_does_not_end_it(server: ListServer, api: CoreV1Api):
    server.gate.clear()
    quotas = ResourceQuotas(api)
    waiting = [asyncio.ensure_future(quotas.read_remaining("hub")) for _ in range(3)]
    await server.asked.wait()
    waiting[0].cancel()
    server.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in found] == [asyncio.CancelledError, RemainingQuota, RemainingQuota]
    assert len(server.requests) == 1
