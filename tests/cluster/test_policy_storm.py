"""200 users with random rules, groups and choices start and stop servers 2,000 times, and the hub is killed midway.

No limit is ever exceeded, by the API server's own pods; no user is refused what they may have; no server is lost. What
each may have is worked out a second time, without gpuspawner (``support/storm/rules.py``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from random import Random

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from bench.spawn import cpu_s
from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.ports import free_ports
from tests.cluster.support.storm.claims import Claims
from tests.cluster.support.storm.counter import PodCounter
from tests.cluster.support.storm.people import people
from tests.cluster.support.storm.rules import Rules
from tests.cluster.support.storm.site import card_nodes, claimed, stood_in
from tests.cluster.support.storm.standin import stand_in
from tests.cluster.support.storm.storm import ADMIN, Storm
from tests.cluster.support.storm.world import SERVER_NAMES, World, draw_world, settings_of
from tests.cluster.support.waiting import wait_for

logger = logging.getLogger(__name__)

NAMESPACE = "storm"
USERS = 200
REQUESTS = int(os.environ.get("GPUSPAWNER_STORM_REQUESTS", "2000"))
SEED = int(os.environ.get("GPUSPAWNER_STORM_SEED", "0")) or int.from_bytes(os.urandom(4))
NODES_OF_A_TYPE = 4
GPUS_OF_A_NODE = 400
"""More than all users take: only rules limit."""


@pytest.fixture
def world() -> World:
    return draw_world(Random(SEED), users=USERS)


@pytest.fixture
def nodes(cluster: Cluster, api: ApiClient) -> Iterator[None]:
    """Add nodes with the storm's GPU types, and keep all servers of other types off the one that runs pods."""
    with card_nodes(cluster, api, count=NODES_OF_A_TYPE, gpus=GPUS_OF_A_NODE):
        yield


@pytest.fixture
def port() -> int:
    return free_ports(["127.0.0.1"])[0]


@pytest.fixture
def hub(cluster: Cluster, api: ApiClient, world: World, nodes: None, port: int) -> Iterator[Hub]:
    settings = HubSettings(
        namespace=NAMESPACE,
        gpuspawner=settings_of(world, image=cluster.notebook_image),
        extra={
            "JupyterHub": {
                "load_groups": {group: {"users": users} for group, users in world.members.items()},
                # Most servers are there before the answer, so that few have to be asked after.
                "tornado_settings": {"slow_spawn_timeout": 10},
            },
            "KubeSpawner": stood_in(port),
        },
        admin_users=[ADMIN],
    )
    with Hub(cluster, settings) as running:
        running.client.request("POST", "/users", body={"usernames": list(world.users)})
        yield running
    CoreV1Api(api).delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)


@pytest.mark.timeout(600)
def test_no_limit_is_exceeded_nothing_allowed_refused_and_no_server_lost(
    cluster: Cluster, api: ApiClient, hub: Hub, world: World, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=__name__)
    rules = Rules(world)
    counter, claims = PodCounter(api, NAMESPACE, rules=rules), Claims(rules)

    async def restart() -> None:
        logger.info("the first hub took %.1f s of processor time", cpu_s(hub.hub_pid))
        os.kill(hub.hub_pid, 9)
        await asyncio.to_thread(hub.restart)

    async def rage() -> Storm:
        async with people(hub.url, hub.token) as crowd, stand_in(port):
            storm = Storm(
                people=crowd,
                counter=counter,
                random=Random(SEED),
                servers=[(user, name) for user in world.users for name in SERVER_NAMES],
                visitors=frozenset(world.users[::3]),
                own_image=cluster.notebook_image,
                rules=rules,
                claims=claims,
            )
            await storm.rage(REQUESTS, restart=restart)
            await storm.calm()
            return storm

    began = time.monotonic()
    logger.info("seed %s", SEED)
    with counter.counting():
        storm = asyncio.run(rage())
        wait_for(lambda: not counter.servers, "no pod left")
    logger.info("the second hub took %.1f s of processor time", cpu_s(hub.hub_pid))
    took_s = time.monotonic() - began
    logger.info("%s in %.0f s, %s changes of pods", dict(storm.done), took_s, counter.changes)
    logger.info("refused for %s; at most %s", claims.reasons(), counter.peaks)

    assert (counter.exceeded, counter.gaps) == ({}, 0)
    assert claims.wrongly_started() == []
    assert claims.wrongly_refused() == []
    assert storm.lost == []
    assert claimed(api, NAMESPACE) <= {claim.server for claim in claims if not claim.refusal}
    # It was a storm: all that is counted was at its limit somewhere, and many were refused something.
    assert {key[0] for key, peak in counter.peaks.items() if peak == rules.most(key)} >= {"gpus", "pool"}
    assert storm.sent >= REQUESTS
    assert storm.done["refused"] > REQUESTS / 10
