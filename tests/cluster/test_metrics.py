"""The hub's own /metrics tells of starts, of what servers hold, and of how the cluster is read; and names no user."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for

NAMESPACE = "gauges"
PREFIX = "jupyterhub_gpuspawner_"
CARD = WHOLE_CARD.slug


@pytest.fixture
def servers(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    """The servers of a hub of its own: what is counted is this test's alone."""
    open_to_all = {"JupyterHub": {"authenticate_prometheus": False}}
    with Hub(cluster, HubSettings(namespace=NAMESPACE, gpuspawner=offer(cluster), extra=open_to_all)) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


def scraped(hub: Hub) -> dict[str, float]:
    """Return what the hub tells Prometheus of gpuspawner, by name and labels."""
    answer = hub.client.request("GET", "/metrics")
    assert answer.status == 200, answer
    lines = (line for line in answer.body.splitlines() if line.startswith(PREFIX))
    return {name.removeprefix(PREFIX): float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_what_a_hub_did_and_holds_stands_in_its_metrics(servers: Servers) -> None:
    hub = servers.hub
    with servers.running({"metrician": {"gpu": CARD, "gpu_count": 3}}):
        refused = servers.ask("greedy", {"gpu": CARD, "gpu_count": 99})
        with servers.asked("patient", {"gpu": CARD, "gpu_count": 2}):
            servers.pods.wait_unschedulable("patient")
            told = scraped(hub)
    after = wait_for(
        lambda: found if (found := scraped(hub)).get(f'spawns_total{{gpu="{CARD}",outcome="cancelled"}}') else None,
        "the start that was given up counted",
    )

    assert refused.status == 400
    expected = {
        f'servers{{gpu="{CARD}",state="held"}}': 1,
        f'servers{{gpu="{CARD}",state="requested"}}': 1,
        f'gpus{{gpu="{CARD}",state="held"}}': 3,
        f'gpus{{gpu="{CARD}",state="requested"}}': 2,
        f'spawns_total{{gpu="{CARD}",outcome="ready"}}': 1,
        f'spawns_total{{gpu="{CARD}",outcome="out_of_range"}}': 1,
        f'spawn_ready_duration_seconds_count{{gpu="{CARD}"}}': 1,
        f'spawn_stage_duration_seconds_count{{gpu="{CARD}",stage="ready"}}': 1,
        'refusals_total{reason="out_of_range"}': 1,
        'verdicts_total{outcome="ready",verdict="now"}': 1,
    }
    assert {name: told.get(name) for name in expected} == expected
    assert 0 < told[f'spawn_ready_duration_seconds_sum{{gpu="{CARD}"}}'] < 120
    assert 0 <= told["inventory_age_seconds"] < 30
    assert {"nodes", "pods"} <= set(re.findall(r'watch_restarts_total\{resource="(\w+)"', "\n".join(told)))
    assert after['verdicts_total{outcome="cancelled",verdict="waits"}'] == 1
    assert not [name for name in after for person in ("metrician", "greedy", "patient") if person in name]
