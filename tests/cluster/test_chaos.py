"""100 users start and stop servers while everything around them fails: all promises hold.

A seed draws users, rules, choices, faults and their order; when what happens beside what is up to the machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from devcluster.ports import free_ports
from tests.cluster.support.chaos.crowd import START_TIMEOUT_S, Crowd
from tests.cluster.support.chaos.faults import Fate, patient
from tests.cluster.support.chaos.keeper import Keeper, note_500s
from tests.cluster.support.chaos.ledger import Ledger, Promise
from tests.cluster.support.outages import Way
from tests.cluster.support.relay import changed
from tests.cluster.support.storm.counter import PodCounter
from tests.cluster.support.storm.people import people
from tests.cluster.support.storm.rules import Rules
from tests.cluster.support.storm.site import card_nodes, claimed, stood_in
from tests.cluster.support.storm.standin import stand_in
from tests.cluster.support.storm.world import SERVER_NAMES, World, draw_world, settings_of
from tests.cluster.support.unruly_relay import UnrulyRelay
from tests.cluster.support.watched import hub_kubeconfig

logger = logging.getLogger(__name__)

NAMESPACE = "chaos"
REPORTS = Path(__file__).resolve().parents[2] / ".run" / "reports"
MINUTES = float(os.environ.get("GPUSPAWNER_CHAOS_MINUTES", "20"))
SEED = int(os.environ.get("GPUSPAWNER_CHAOS_SEED", "0")) or int.from_bytes(os.urandom(4))
ONLY = os.environ.get("GPUSPAWNER_CHAOS_FAULTS", "")
"""Part of the names of faults that may happen to the API server; empty = all."""
USERS = 100
NODES_OF_A_TYPE, GPUS_OF_A_NODE = 3, 4
"""Few enough that servers wait for one another."""
HAPPENS = {"ready", "ready after a kill", "ended", "cancelled", "stopped"}
SHORT_MINUTES = 5
"""A shorter run need not see all that happens."""
KILLS = max(1, round(MINUTES / 2))
CAPS = {"cpu": {"max": 4}, "memory": {"max": "8G"}}
"""The allowance by rules without bounds of their own; no setting limits CPU or memory beside them."""
SETTLED_S = 60.0
"""How long pods may stay after the last start and stop: the hub looks after servers every 30 s."""


def draw_site() -> World:
    world = draw_world(Random(SEED), users=USERS)
    default = world.policy["default"]
    default.update({name: {**cap, **default.get(name, {})} for name, cap in CAPS.items()})
    return world


def settings(cluster: Cluster, world: World, *, port: int) -> HubSettings:
    said = settings_of(world, image=cluster.notebook_image)
    return HubSettings(
        namespace=NAMESPACE,
        gpuspawner={name: value for name, value in said.items() if name not in CAPS},
        extra={
            "JupyterHub": {
                "load_groups": {group: {"users": users} for group, users in world.members.items()},
                "authenticate_prometheus": False,
            },
            "KubeSpawner": {
                **stood_in(port),
                "start_timeout": START_TIMEOUT_S,
                # As zero-to-jupyterhub has it.
                "consecutive_failure_limit": 5,
            },
        },
    )


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[ApiClient]:
    with cluster.api_client() as connected, patient(connected) as client:
        yield client
        for each in (connected, client):
            each.rest_client.pool_manager.clear()


@pytest.fixture
def site(cluster: Cluster, admin: ApiClient) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The nodes that may be deleted; nothing is left of the servers afterwards."""
    with card_nodes(cluster, admin, count=NODES_OF_A_TYPE, gpus=GPUS_OF_A_NODE) as nodes:
        yield nodes
        core = CoreV1Api(admin)
        core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
        core.delete_collection_namespaced_persistent_volume_claim(NAMESPACE)


@dataclass(slots=True, kw_only=True)
class Run:
    """One run, from the first hub to the last."""

    cluster: Cluster
    admin: ApiClient
    nodes: Sequence[Mapping[str, Any]]
    folder: Path
    ledger: Ledger
    world: World

    async def run(self) -> None:
        relay = UnrulyRelay(self.cluster.gateway, int(urlsplit(self.cluster.server).port or 443))
        (port,) = free_ports(["127.0.0.1"])
        kubeconfig = hub_kubeconfig(self.cluster, self.admin, NAMESPACE)
        async with relay.running(), stand_in(port):
            way = changed(kubeconfig, self.folder / "kubeconfig", server=f"https://{self.cluster.gateway}:{relay.port}")
            hub = Hub(self.cluster, settings(self.cluster, self.world, port=port), kubeconfig=way)
            await asyncio.to_thread(hub.start)
            try:
                hub.client.request("POST", "/users", body={"usernames": list(self.world.users)})
                await self._rage(hub, relay)
            finally:
                await asyncio.to_thread(hub.stop)
                self._keep(hub)

    async def _rage(self, hub: Hub, relay: UnrulyRelay) -> None:
        ledger, rules, until = self.ledger, Rules(self.world), time.monotonic() + MINUTES * 60
        counter = PodCounter(self.admin, NAMESPACE, rules=rules)
        fate = Fate(
            way=Way(self.cluster, self.admin, relay),
            namespace=NAMESPACE,
            folder=self.folder,
            nodes=self.nodes,
            counter=counter,
            ledger=ledger,
            random=Random(f"{SEED} fate"),
            until=until,
            only=ONLY,
        )
        async with people(hub.url, hub.token) as users:
            crowd = Crowd(
                people=users,
                counter=counter,
                random=Random(f"{SEED} crowd"),
                servers=[(user, name) for user in self.world.users for name in SERVER_NAMES],
                own_image=self.cluster.notebook_image,
                rules=rules,
                ledger=ledger,
                struck=fate.struck,
                is_hub_there=asyncio.Event(),
            )
            with counter.counting():
                await self._race(crowd, fate, hub=hub, until=until)
        self._judge(crowd, hub)

    async def _race(self, crowd: Crowd, fate: Fate, *, hub: Hub, until: float) -> None:
        """Have users, faults and the hub's keeper at work until all that was begun is over."""
        keeper = Keeper(
            hub=hub,
            ledger=self.ledger,
            kills_at=draw_kills(until),
            on_end=crowd.note_end_of_hub,
            is_hub_there=crowd.is_hub_there,
        )
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(keeper.keep())
            async with asyncio.TaskGroup() as begun:
                for lane in (fate.strike_api(), fate.strike_nodes(), crowd.rage(until), crowd.watch(until)):
                    begun.create_task(lane)
            await crowd.settle(SETTLED_S)
            await crowd.calm()
            await keeper.scrape()
            keeper.is_over = True
        self.ledger.done |= {f"outcome {name}": count for name, count in keeper.outcomes.items()}

    def _judge(self, crowd: Crowd, hub: Hub) -> None:
        """Note what can be told only in the end."""
        note_500s(hub, self.ledger)
        for key, excess in crowd.counter.exceeded.items():
            text = f"{excess.amount:g} of {excess.most:g} for {key}"
            self.ledger.breach(Promise.LIMITS, text, server=excess.server, at=excess.at)
        for server in claimed(self.admin, NAMESPACE) - crowd.excused:
            self.ledger.breach(Promise.CLAIMS, "its volume claim is left, and it never had a pod", server=server)

    def _keep(self, hub: Hub) -> None:
        """Keep what a failure is understood by."""
        REPORTS.mkdir(parents=True, exist_ok=True)
        entries = sorted(self.ledger.entries, key=lambda each: each.at)
        (REPORTS / f"chaos-{SEED}-ledger.log").write_text("\n".join(map(self.ledger.line, entries)))
        shutil.copy(hub.log, REPORTS / f"chaos-{SEED}-hub.log")


def draw_kills(until: float) -> list[float]:
    """Draw when the hub is killed: once in each of so many equal spans of time."""
    random, began = Random(f"{SEED} kills"), time.monotonic()
    span = (until - began) / KILLS
    return [began + span * (number + random.uniform(0.2, 0.9)) for number in range(KILLS)]


@pytest.mark.timeout(MINUTES * 60 + 900)
def test_promises_hold_while_everything_fails(
    cluster: Cluster, admin: ApiClient, site: Sequence[Mapping[str, Any]], tmp_path: Path
) -> None:
    ledger = Ledger(SEED)
    asyncio.run(Run(cluster=cluster, admin=admin, nodes=site, folder=tmp_path, ledger=ledger, world=draw_site()).run())
    logger.info("%s", ledger.report())

    assert {promise: len(entries) for promise, entries in ledger.broken().items()} == {}, ledger.report()
    assert ledger.done["the hub is killed"] == KILLS
    # It was chaos: servers were had, waited for, given up, stopped and lived through kills.
    assert MINUTES < SHORT_MINUTES or ledger.done.keys() >= HAPPENS, ledger.report()
