"""The store agrees with a list of the real API server, after any creation, binding and deletion."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiClient

from devcluster import Cluster
from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.kube.store import ClusterStore
from tests.cluster.support.nodes import simulated
from tests.cluster.support.watched import hub_kubeconfig, watched

NAMESPACE = "capacity"
NO_SCHEDULER = "no-such-scheduler"
ROUNDS = 8
CHANGES = 25
SEED = 20


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, api: ApiClient) -> Path:
    return hub_kubeconfig(cluster, api, NAMESPACE)


class Changes:
    """Creates, binds, labels, finishes and deletes pods and nodes at random."""

    def __init__(self, api: ApiClient, *, seed: int) -> None:
        self._core = client.CoreV1Api(api)
        self._random = random.Random(seed)
        self._number = 0
        self._waiting: list[str] = []
        self._bound: list[str] = []
        self._nodes = [node.metadata.name for node in simulated(api)]

    def make(self, count: int) -> None:
        for _ in range(count):
            self._random.choice(
                [self._create, self._create, self._bind, self._bind, self._delete, self._finish, self._node]
            )()

    def end(self) -> None:
        for name in [*self._waiting, *self._bound]:
            self._core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
        for name in self._nodes:
            self._core.patch_node(name, {"metadata": {"labels": {"capacity": None}}})

    def _create(self) -> None:
        self._number += 1
        name = f"pod-{self._number}"
        requests = {"cpu": f"{self._random.randint(1, 900)}m", "memory": f"{self._random.randint(1, 64)}Mi"}
        if self._random.random() < 0.5:
            requests["nvidia.com/gpu"] = str(self._random.randint(1, 2))
        container = {"name": "c", "image": "none", "resources": {"requests": requests, "limits": requests}}
        spec = {"schedulerName": NO_SCHEDULER, "containers": [container], "automountServiceAccountToken": False}
        self._core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        self._waiting.append(name)

    def _bind(self) -> None:
        if self._waiting:
            name = self._taken(self._waiting)
            target = {"kind": "Node", "name": self._random.choice(self._nodes)}
            body: Any = {"metadata": {"name": name}, "target": target}
            # The answer is a Status, which the client takes for a broken Binding.
            answer = self._core.create_namespaced_pod_binding(name, NAMESPACE, body, _preload_content=False)
            answer.drain_conn()
            answer.release_conn()
            self._bound.append(name)

    def _delete(self) -> None:
        names = self._random.choice([self._waiting, self._bound])
        if names:
            self._core.delete_namespaced_pod(self._taken(names), NAMESPACE, grace_period_seconds=0)

    def _finish(self) -> None:
        if self._waiting:
            name = self._random.choice(self._waiting)
            phase = self._random.choice(["Succeeded", "Failed"])
            self._core.patch_namespaced_pod_status(name, NAMESPACE, {"status": {"phase": phase}})

    def _node(self) -> None:
        labels = {"capacity": str(self._random.randint(1, 3))}
        self._core.patch_node(self._random.choice(self._nodes), {"metadata": {"labels": labels}})

    def _taken(self, names: list[str]) -> str:
        return names.pop(self._random.randrange(len(names)))


def fresh(api: ApiClient) -> Occupancy:
    """Return what a list gives right now, all of it and without a selector."""
    core = client.CoreV1Api(api)
    nodes, pods = (
        api.sanitize_for_serialization(method())["items"]
        for method in (core.list_node, core.list_pod_for_all_namespaces)
    )
    decoded = (decode.decode_pod(pod) for pod in pods)
    return Occupancy.build((decode.decode_node(node) for node in nodes), (pod for pod in decoded if pod is not None))


def facts(occupancy: Occupancy) -> dict[str, object]:
    """Return everything that counts, in a form that can be compared and read."""
    return {
        "nodes": {node.name: (node.labels, dict(occupancy.get_free(node.name))) for node in occupancy.nodes},
        "pods": {(pod.namespace, pod.name): (pod.node, dict(pod.requests)) for pod in occupancy.iter_pods()},
        "waiting": sorted((pod.namespace, pod.name) for pod in occupancy.pending_pods),
    }


async def until_the_same(store: ClusterStore, api: ApiClient) -> Inventory:
    """Ask until store and list agree; the cluster's own pods may change between the two."""
    inventory = Inventory()
    expected: dict[str, object] = {}
    for _ in range(20):
        expected = facts(await asyncio.to_thread(fresh, api))
        inventory = await store.read_inventory()
        if inventory.occupancy is not None and facts(inventory.occupancy) == expected:
            return inventory
        await asyncio.sleep(0.1)
    assert inventory.occupancy is not None
    assert facts(inventory.occupancy) == expected
    return inventory


@pytest.mark.smoke
async def test_counts_are_those_of_a_fresh_list_after_random_changes(api: ApiClient, kubeconfig: Path) -> None:
    changes = Changes(api, seed=SEED)
    try:
        async with watched(kubeconfig) as store:
            await store.read_inventory()
            for _ in range(ROUNDS):
                await asyncio.to_thread(changes.make, CHANGES)
                inventory = await until_the_same(store, api)
                assert inventory.reason == ""
                assert inventory.age_s is not None
                assert inventory.age_s < 45
    finally:
        changes.end()


async def test_an_idle_cluster_stays_fresh(kubeconfig: Path) -> None:
    ages = []
    async with watched(kubeconfig) as store:
        for _ in range(180):
            ages.append((await store.read_inventory()).age_s)
            await asyncio.sleep(0.1)
    assert None not in ages
    assert max(age or 0 for age in ages) < 15
