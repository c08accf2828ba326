"""The status of the cluster-autoscaler is read where the hub may, seldom, and what cannot be read is unseen."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth
from gpuspawner.kube.resources.autoscaler_status import (
    STATUS_ABSENT_S,
    STATUS_CACHE_S,
    STATUS_RETRY_S,
    NodeGrowthReader,
)
from tests.unit.clocks import Clock
from tests.unit.kube.watch_server import REVIEWS, WatchServer

PATH = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)


def status(*, target: int = 1, most: int = 4) -> str:
    annotations = {"cluster-autoscaler.kubernetes.io/last-updated": "2026-01-01 10:00:00.1 +0000 UTC"}
    text = f"nodeGroups:\n- name: g\n  health:\n    cloudProviderTarget: {target}\n    maxSize: {most}\n"
    return json.dumps({"metadata": {"annotations": annotations}, "data": {"status": text}})


@pytest.fixture
def reader(cluster_api: CoreV1Api, clock: Clock) -> NodeGrowthReader:
    return NodeGrowthReader(cluster_api.api_client, clock=clock, now=lambda: NOW)


@pytest.mark.parametrize(("target", "expected"), [(1, NodeGrowth.POSSIBLE), (4, NodeGrowth.FULL)])
async def test_what_the_config_map_says_is_read(
    cluster: WatchServer, reader: NodeGrowthReader, target: int, expected: NodeGrowth
):
    cluster.bodies[PATH] = status(target=target)
    assert await reader.read_growth() == expected


async def test_a_hub_without_the_right_sends_no_request_that_is_refused(cluster: WatchServer, reader: NodeGrowthReader):
    cluster.denied = {("get", "configmaps")}
    cluster.bodies[PATH] = status()
    assert await reader.read_growth() == NodeGrowth.UNSEEN
    assert [each.path for each in cluster.requests] == [REVIEWS]
    review = (await cluster.requests[0].json())["spec"]["resourceAttributes"]
    assert review == {
        "verb": "get",
        "resource": "configmaps",
        "namespace": "kube-system",
        "name": "cluster-autoscaler-status",
    }


@pytest.mark.parametrize(
    ("state", "holds_s"),
    [
        pytest.param({"bodies": status()}, STATUS_CACHE_S, id="read"),
        pytest.param({"status": 403}, STATUS_ABSENT_S, id="forbidden"),
        pytest.param({"status": 404}, STATUS_ABSENT_S, id="no cluster-autoscaler"),
        pytest.param({"status": 500}, STATUS_RETRY_S, id="failed"),
        pytest.param({"bodies": "no JSON"}, STATUS_RETRY_S, id="no JSON"),
        pytest.param({"bodies": "[" * 100_000}, STATUS_RETRY_S, id="deep"),
    ],
)
async def test_an_answer_holds_for_a_while(
    cluster: WatchServer, reader: NodeGrowthReader, clock: Clock, state: dict[str, Any], holds_s: float
):
    for kind, value in state.items():
        getattr(cluster, kind)[PATH] = value
    found, asked = [], []
    for passed_s in (0.0, holds_s - 0.1, 0.2):
        clock.now += passed_s
        found.append(await reader.read_growth())
        asked.append(len([each for each in cluster.requests if each.path == PATH]))
    is_read = holds_s == STATUS_CACHE_S
    assert (found, asked) == ([NodeGrowth.POSSIBLE if is_read else NodeGrowth.UNSEEN] * 3, [1, 1, 2])


async def test_what_was_known_is_unseen_once_it_cannot_be_read(
    cluster: WatchServer, reader: NodeGrowthReader, clock: Clock
):
    cluster.bodies[PATH] = status(target=4)
    found = [await reader.read_growth()]
    cluster.status[PATH] = 403
    clock.now += STATUS_CACHE_S
    assert [*found, await reader.read_growth()] == [NodeGrowth.FULL, NodeGrowth.UNSEEN]


async def test_a_server_that_does_not_answer_delays_no_form_beyond_its_time(
    cluster: WatchServer, cluster_api: CoreV1Api
):
    cluster.held = {PATH}
    reader = NodeGrowthReader(cluster_api.api_client, timeout_s=0.5)
    began = time.monotonic()
    assert await reader.read_growth(wait_s=0.01) == NodeGrowth.UNSEEN
    assert time.monotonic() - began < 0.4
    # The request goes on by itself until its own timeout.
    assert await reader.read_growth() == NodeGrowth.UNSEEN
