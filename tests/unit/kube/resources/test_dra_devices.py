"""Devices of DRA drivers are followed where they matter, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.verdict.availability import count_availability
from gpuspawner.kube.resources.dra_devices import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from gpuspawner.kube.store import ClusterStore, StoreTiming
from tests.unit.clocks import Clock
from tests.unit.kube.test_store import PAUSES, TIMING, until
from tests.unit.kube.watch_server import HANG, NODES, PODS, WatchServer, eventually, pod

API = "/apis/resource.k8s.io/v1"
GPU = "nvidia.com/gpu"
CARD = GPUType(slug="card", display_name="Card", resource=GPU, vendor="nvidia", match={}, max_count=8)
EXPRESSION = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
FIRST_ANSWER_S = 2.0
"""How long the first answer waits for devices that are not read: enough for nodes and pods on a busy machine."""


def path(plural: str) -> str:
    return f"{API}/{plural}"


def device_class(resource: str | None = GPU) -> dict[str, Any]:
    selectors = [{"cel": {"expression": EXPRESSION}}]
    return {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": selectors, "extendedResourceName": resource}}


def device_slice(devices: int, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    some = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(devices)]
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": some}
    return {"metadata": {"name": f"{node}-gpu", **metadata}, "spec": spec}


def claim(name: str, *devices: str) -> dict[str, Any]:
    results = [{"driver": "gpu.nvidia.com", "pool": "n1", "device": device} for device in devices]
    return {
        "metadata": {"name": name, "namespace": "other"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def bare_node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.fixture
def dra(cluster: WatchServer) -> WatchServer:
    """A cluster with a DRA driver: four GPUs on one of two nodes, one of them held by another user's claim."""
    cluster.bodies[API] = json.dumps(
        {"resources": [{"name": plural} for plural in (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS)]}
    )
    cluster.put(NODES, bare_node("n1"), bare_node("n2"))
    cluster.put(path(DEVICE_CLASSES), device_class())
    cluster.put(path(RESOURCE_SLICES), device_slice(4))
    cluster.put(path(RESOURCE_CLAIMS), claim("taken", "gpu-3"))
    return cluster


@pytest.fixture
async def store(cluster_api: CoreV1Api, clock: Clock) -> AsyncIterator[ClusterStore]:
    found = ClusterStore(
        cluster_api, pace=StoreTiming(first_sync_timeout_s=5.0, timing=TIMING, pauses=PAUSES, clock=clock)
    )
    yield found
    await found.stop()


def numbers(inventory: Inventory) -> tuple[int | None, int | None]:
    """Return how many GPUs there are, and how many are free."""
    (found,) = count_availability([CARD], inventory)
    return found.total, found.free


def shows(total: int | None, free: int | None) -> Callable[[Inventory], object]:
    return lambda inventory: numbers(inventory) == (total, free)


def asked(cluster: WatchServer) -> set[str]:
    return {each.path.rpartition("/")[2] for each in cluster.requests if each.path.startswith(f"{API}/")}


async def test_the_first_answer_has_devices_and_what_is_taken_of_them(store: ClusterStore, dra: WatchServer):
    inventory = await store.read_inventory()
    assert (numbers(inventory), inventory.reason, inventory.age_s) == ((4, 3), "", 0.0)


async def test_devices_that_come_and_go_show(store: ClusterStore, dra: WatchServer):
    await store.read_inventory()
    dra.put(path(RESOURCE_CLAIMS), claim("another", "gpu-0", "gpu-1"))
    await until(store, shows(4, 1))
    dra.delete(path(RESOURCE_CLAIMS), claim("taken"))
    await until(store, shows(4, 2))
    dra.put(path(RESOURCE_SLICES), device_slice(1, "n2"))
    await until(store, shows(5, 3))
    dra.delete(path(RESOURCE_SLICES), device_slice(4))
    await until(store, shows(1, 1))
    dra.delete(path(DEVICE_CLASSES), device_class())
    await until(store, shows(0, 0))


async def test_a_pod_that_has_a_device_by_a_claim_counts_once(store: ClusterStore, dra: WatchServer):
    await store.read_inventory()
    mappings = [{"containerName": "c", "resourceName": GPU, "requestName": "r"}]
    bound = pod("p", gpus=1)
    bound["status"]["extendedResourceClaimStatus"] = {"requestMappings": mappings, "resourceClaimName": "p-devices"}
    dra.put(path(RESOURCE_CLAIMS), claim("p-devices", "gpu-0"))
    dra.put(PODS, bound)
    await until(store, lambda inventory: list(inventory.occupancy.iter_pods()))
    inventory = await until(store, shows(4, 2))
    assert inventory.occupancy.get_requested("n1") == {"pods": 1, GPU: 2}


async def test_nothing_is_asked_of_an_api_server_without_dra(store: ClusterStore, dra: WatchServer):
    dra.bodies[API] = "{}"
    inventory = await store.read_inventory()
    assert (numbers(inventory), inventory.reason, inventory.dra_resources) == ((0, 0), "", frozenset())
    assert asked(dra) == set()


@pytest.mark.parametrize("resource", [None, "", "cpu"])
async def test_without_an_extended_resource_only_the_classes_are_followed(
    store: ClusterStore, dra: WatchServer, resource: str | None
):
    dra.put(path(DEVICE_CLASSES), device_class(resource))
    inventory = await store.read_inventory()
    await eventually(lambda: dra.asked(path(DEVICE_CLASSES), watch=True))
    assert (numbers(inventory), asked(dra)) == ((0, 0), {DEVICE_CLASSES})


async def test_an_extended_resource_that_comes_later_is_noticed(store: ClusterStore, dra: WatchServer):
    dra.put(path(DEVICE_CLASSES), device_class(None))
    await store.read_inventory()
    dra.put(path(DEVICE_CLASSES), device_class())
    await until(store, shows(4, 3))


async def test_a_dra_that_comes_later_is_noticed(store: ClusterStore, dra: WatchServer):
    body = dra.bodies[API]
    dra.bodies[API] = "{}"
    await store.read_inventory()
    dra.bodies[API] = body
    await until(store, shows(4, 3))


async def test_without_the_right_to_read_classes_there_are_no_devices(store: ClusterStore, dra: WatchServer):
    dra.denied = {("list", DEVICE_CLASSES)}
    inventory = await store.read_inventory()
    assert (numbers(inventory), inventory.reason, asked(dra)) == ((0, 0), "", set())
    assert inventory.occupancy is not None


@pytest.mark.parametrize("plural", [RESOURCE_SLICES, RESOURCE_CLAIMS])
async def test_without_slices_or_claims_the_number_of_devices_is_unknown(
    store: ClusterStore, dra: WatchServer, plural: str
):
    dra.denied = {("watch", plural)}
    inventory = await store.read_inventory()
    assert (numbers(inventory), inventory.reason) == ((None, None), "")
    dra.denied.clear()
    await until(store, shows(4, 3))


async def test_it_is_known_which_resources_stand_for_devices(store: ClusterStore, dra: WatchServer):
    before = await store.read_inventory()
    dra.delete(path(DEVICE_CLASSES), device_class())
    after = await until(store, lambda inventory: not inventory.dra_resources)
    assert (before.dra_resources, after.dra_resources) == ({GPU}, frozenset())


async def test_that_no_resource_stands_for_devices_is_news_once_it_is_known(store: ClusterStore, dra: WatchServer):
    dra.put(path(DEVICE_CLASSES), device_class(None))
    dra.denied = {("list", DEVICE_CLASSES)}
    before = await store.read_inventory()
    dra.denied.clear()
    after = await until(store, lambda inventory: inventory.dra_resources is not None)
    assert (before.dra_resources, after.dra_resources) == (None, frozenset())
    assert after.generation > before.generation


@pytest.mark.parametrize("hindrance", ["denied", "failing", "slow"])
async def test_classes_that_cannot_be_read_are_not_known_to_be_none(
    cluster_api: CoreV1Api, dra: WatchServer, hindrance: str
):
    dra.denied = {("list", DEVICE_CLASSES)} if hindrance == "denied" else set()
    dra.status = {path(DEVICE_CLASSES): 429} if hindrance == "failing" else {}
    dra.held = {path(DEVICE_CLASSES)} if hindrance == "slow" else set()
    store = ClusterStore(
        cluster_api, pace=StoreTiming(first_sync_timeout_s=FIRST_ANSWER_S, timing=TIMING, pauses=PAUSES)
    )
    inventory = await store.read_inventory()
    assert (inventory.dra_resources, inventory.reason) == (None, "")
    await store.stop()


async def test_without_the_classes_any_more_the_number_of_devices_is_unknown(store: ClusterStore, dra: WatchServer):
    await store.read_inventory()
    await eventually(lambda: len(dra.streams) == 5)
    dra.denied = {("watch", DEVICE_CLASSES)}
    dra.cut()
    inventory = await until(store, shows(None, None))
    assert inventory.dra_resources is None
    dra.denied.clear()
    await until(store, shows(4, 3))


async def without_news(store: ClusterStore, dra: WatchServer, clock: Clock, plural: str) -> Inventory:
    """Return the answer after one resource alone was not heard of for long."""
    dra.scripts[path(plural)] = [[HANG]]
    dra.lifetime_s = 0.05
    await store.read_inventory()
    await eventually(lambda: dra.asked(path(plural), watch=True))
    clock.now += 50
    others = {NODES, PODS, *map(path, (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS))} - {path(plural)}
    before = {each: len(dra.asked(each, watch=True)) for each in others}
    await eventually(lambda: all(len(dra.asked(each, watch=True)) > before[each] + 2 for each in others))
    return await store.read_inventory()


@pytest.mark.parametrize("plural", [DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS])
async def test_devices_not_heard_of_for_long_make_nothing_old_but_their_number_unknown(
    store: ClusterStore, dra: WatchServer, clock: Clock, plural: str
):
    inventory = await without_news(store, dra, clock, plural)
    assert (inventory.age_s, inventory.reason, numbers(inventory)) == (0, "", (None, None))


async def test_a_node_keeps_signs_of_devices_not_heard_of_for_long(store: ClusterStore, dra: WatchServer, clock: Clock):
    inventory = await without_news(store, dra, clock, RESOURCE_SLICES)
    assert [(each.name, each.published_by_dra) for each in inventory.nodes or ()] == [("n1", {GPU}), ("n2", set())]


async def test_while_nothing_is_heard_of_anything_the_last_count_stays(
    store: ClusterStore, dra: WatchServer, clock: Clock
):
    await store.read_inventory()
    await eventually(lambda: len(dra.streams) == 5)
    clock.now += 50
    inventory = await store.read_inventory()
    assert (inventory.age_s, numbers(inventory)) == (50, (4, 3))


async def test_strange_objects_take_nothing_from_the_others(store: ClusterStore, dra: WatchServer):
    strange: list[Any] = [
        None,
        3,
        "x",
        [],
        {"devices": 3, "pool": []},
        {"nodeName": 3, "devices": [None, 3, {"name": []}]},
    ]
    for plural in (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS):
        dra.put(
            path(plural),
            *(
                {"metadata": {"name": f"s{number}"}, "spec": each, "status": each}
                for number, each in enumerate(strange)
            ),
        )
    assert numbers(await store.read_inventory()) == (4, 3)
    dra.put(
        path(RESOURCE_CLAIMS), {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": [3, {}]}}}}
    )
    dra.put(path(RESOURCE_CLAIMS), claim("last", "gpu-0"))
    await until(store, shows(4, 2))
