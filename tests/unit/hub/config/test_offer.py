"""Settings, cluster and catalog are put together once for all users."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from gpuspawner.core.errors import SettingsError
from gpuspawner.core.verdict.verdict import Outcome, Verdict, predict_verdict
from gpuspawner.hub.config.offer import UNUSED_CLIENT_S, OfferFactory
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.kube.store import ClusterStore
from gpuspawner.kube.watch.watch_loop import HUB_STOPPING
from tests.unit.clocks import Clock
from tests.unit.hub.conftest import CPU_NODE, GPU_NODE, SETTINGS
from tests.unit.kube.watch_server import NODES, PODS, WatchServer, serve_watches


@asynccontextmanager
async def open_clients(*servers: WatchServer) -> AsyncIterator[list[CoreV1Api]]:
    async with AsyncExitStack() as stack:
        clients = [ApiClient(Configuration(host=server.url)) for server in servers]
        yield [CoreV1Api(await stack.enter_async_context(each)) for each in clients]


@pytest.fixture
def offers() -> OfferFactory:
    return OfferFactory(parse_settings)


def test_the_same_settings_are_parsed_once(offers: OfferFactory):
    assert offers.parse(SETTINGS) is offers.parse(dict(SETTINGS))


def test_entries_in_another_order_are_other_settings(offers: OfferFactory):
    swapped = {**SETTINGS, "images": dict(reversed(SETTINGS["images"].items()))}
    assert list(offers.parse(SETTINGS).configured.images) == ["pytorch", "minimal"]
    assert list(offers.parse(swapped).configured.images) == ["minimal", "pytorch"]


def test_true_is_no_number(offers: OfferFactory):
    bounds = {"min": 1, "max": 8, "step": 1, "default": 1}
    offers.parse({"cpu": bounds})
    with pytest.raises(SettingsError):
        offers.parse({"cpu": {**bounds, "min": True}})


def test_settings_may_be_of_classes_of_their_own(offers: OfferFactory):
    own = OrderedDict(SETTINGS["cpu"])
    assert offers.parse({**SETTINGS, "cpu": own}) is offers.parse({**SETTINGS, "cpu": own})
    assert offers.parse({"cpu": own}) is not offers.parse({**SETTINGS, "cpu": own})
    assert offers.parse({"cpu": own}).configured.cpu == offers.parse({"cpu": dict(own)}).configured.cpu


def test_many_different_settings_do_not_pile_up(offers: OfferFactory):
    for number in range(1, 100):
        offers.parse({"cpu": {"min": 1, "max": number, "step": 1, "default": 1}})
    assert len(offers._settings) <= 32


def test_wrong_settings_are_an_error_each_time(offers: OfferFactory):
    for _ in range(2):
        with pytest.raises(SettingsError):
            offers.parse({"gpus": 3})


@pytest.fixture
async def store(offers: OfferFactory, server: WatchServer) -> AsyncIterator[ClusterStore]:
    async with ApiClient(Configuration(host=server.url)) as client:
        yield offers.get_store(CoreV1Api(client))
        await offers.stop()


async def test_an_offer_is_assembled_once_for_the_same_nodes(offers: OfferFactory, store: ClusterStore):
    parsed = offers.parse({})
    first = await offers.make_offer(parsed, store, image="base:1")
    assert (await offers.make_offer(parsed, store, image="base:1")).catalog is first.catalog
    other = await offers.make_offer(parsed, store, image="base:2")
    assert [image.image for image in other.catalog.images.values()] == ["base:2"]


async def test_other_nodes_make_another_offer(offers: OfferFactory, store: ClusterStore, server: WatchServer):
    parsed = offers.parse({})
    assert (await offers.make_offer(parsed, store, image="base")).catalog.gpus
    server.delete(NODES, GPU_NODE)
    async with asyncio.timeout(5):
        while (await offers.make_offer(parsed, store, image="base")).catalog.gpus:  # noqa: ASYNC110 - it knows no event
            await asyncio.sleep(0.01)


async def test_one_client_has_one_store(offers: OfferFactory, store: ClusterStore, server: WatchServer):
    async with ApiClient(Configuration(host=server.url)) as client:
        other = CoreV1Api(client)
        assert offers.find_store(other) is None
        assert offers.get_store(other) is offers.get_store(other) is not store
        assert offers.get_store(store._api) is offers.find_store(store._api) is store
        await offers.stop()


async def test_two_clusters_keep_their_catalogs_and_have_nothing_of_each_other(server: WatchServer):
    offers, parsed = OfferFactory(parse_settings), OfferFactory(parse_settings).parse({})
    async with serve_watches() as empty, open_clients(server, empty) as (first, second):
        catalogs = [
            (await offers.make_offer(parsed, offers.get_store(api), image="base")).catalog
            for api in (first, second, first, second)
        ]
        assert [bool(each.gpus) for each in catalogs] == [True, False, True, False]
        assert (catalogs[0] is catalogs[2], catalogs[1] is catalogs[3]) == (True, True)
        await offers.stop()


async def test_a_client_that_is_unused_is_no_longer_watched_for(server: WatchServer):
    clock = Clock()
    offers = OfferFactory(parse_settings, clock=clock)
    async with open_clients(server, server) as (first, second):
        stores = [offers.get_store(first), offers.get_store(second)]
        for store in stores:
            await store.read_inventory()
        clock.now += UNUSED_CLIENT_S
        assert offers.get_store(second) is stores[1]
        clock.now += 1
        assert offers.get_store(second) is offers.known_store is stores[1]
        await offers.stop()
        assert [(await store.read_inventory()).reason for store in stores] == [HUB_STOPPING, HUB_STOPPING]
        assert offers.get_store(first) is not stores[0]
        await offers.stop()


async def test_the_only_client_is_watched_however_long_it_is_unused(server: WatchServer):
    clock = Clock()
    offers = OfferFactory(parse_settings, clock=clock)
    async with open_clients(server) as (api,):
        store = offers.get_store(api)
        clock.now += 100 * UNUSED_CLIENT_S
        assert offers.get_store(api) is store
        assert (await store.read_inventory()).nodes
        await offers.stop()


QUEUED = {"name": "jupyter-ada", "namespace": "hub", "labels": {"kueue.x-k8s.io/queue-name": "gpu-queue"}}
GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], "containers": []}
ADMITTED = {"metadata": {**QUEUED, "uid": "u-1"}, "spec": {"containers": []}}


async def test_a_pod_that_was_let_through_or_never_was_queued_has_no_place(offers: OfferFactory, store: ClusterStore):
    offer = await offers.make_offer(offers.parse({}), store, image="base")
    unqueued = {"metadata": {"name": "jupyter-ada", "namespace": "hub"}, "spec": GATED}
    assert [await offer.find_queue_place(each) for each in (ADMITTED, unqueued)] == [None, None]


async def test_a_pod_that_exists_is_gated_by_its_gates_alone(offers: OfferFactory, store: ClusterStore):
    offer = await offers.make_offer(offers.parse({}), store, image="base")
    draft = {"metadata": QUEUED, "spec": {"containers": []}}
    pods = [await offer.add_volume_topology(each) for each in (draft, {**ADMITTED, "spec": GATED}, ADMITTED)]
    assert [each.constraints.is_gated for each in pods if each is not None] == [True, True, False]


CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/hub/persistentvolumeclaims"
DRIVER = "disk.example.com"


def volume_of(claim: str) -> dict[str, Any]:
    source = {"csi": {"driver": DRIVER, "volumeHandle": claim}}
    reference = {"namespace": "hub", "name": claim}
    return {"metadata": {"name": f"pv-{claim}"}, "spec": {**source, "claimRef": reference}}


def pod_with(claim: str, *, node: str = "") -> dict[str, Any]:
    volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": claim}}]
    metadata = {"name": f"jupyter-{claim}", "namespace": "hub", **({"uid": claim} if node else {})}
    return {"metadata": metadata, "spec": {"containers": [], "volumes": volumes, "nodeName": node}}


def put_claim(server: WatchServer, name: str, *, volume: str) -> None:
    metadata = {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    server.bodies[f"{CLAIMS}/{name}"] = json.dumps({"metadata": metadata, "spec": {"volumeName": volume}})
    server.bodies[f"{VOLUMES}/{volume}"] = json.dumps(volume_of(name))


def limit_disks(server: WatchServer, count: int) -> None:
    """Have only one node take disks, so many of them, and ``bo`` have one of them."""
    for name, number in (("gpu-1", count), ("cpu-1", 0)):
        drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": number}}]
        server.put(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": drivers}})
    server.put(VOLUMES, *map(volume_of, ("ada", "bo")))
    server.put(PODS, pod_with("bo", node="gpu-1"))
    for name in ("ada", "bo"):
        put_claim(server, name, volume=f"pv-{name}")


async def foretell(
    offers: OfferFactory, store: ClusterStore, claim: str, *, new_claims: Mapping[str, str | None] | None = None
) -> Verdict:
    offer = await offers.make_offer(offers.parse({}), store, image="base")
    pod = await offer.add_volume_topology(pod_with(claim), new_claims=new_claims)
    assert pod is not None
    return predict_verdict(pod, offer.inventory)


@pytest.mark.parametrize(
    ("limit", "claim", "expected"),
    [
        pytest.param(1, "ada", Outcome.WAITS, id="one more disk than the node may have"),
        pytest.param(2, "ada", Outcome.NOW, id="as many disks as the node may have"),
        pytest.param(1, "bo", Outcome.NOW, id="a disk that the node has already"),
    ],
)
async def test_a_node_takes_no_more_disks_than_its_csi_driver_says(
    offers: OfferFactory, store: ClusterStore, server: WatchServer, limit: int, claim: str, expected: Outcome
):
    limit_disks(server, limit)
    assert (await foretell(offers, store, claim)).outcome is expected


async def test_a_server_that_waits_for_room_for_its_disk_says_so(
    offers: OfferFactory, store: ClusterStore, server: WatchServer
):
    limit_disks(server, 1)
    assert (await foretell(offers, store, "ada")).reason == "The nodes with room hold as many disks as they may."


async def test_a_disk_that_is_still_attached_counts_without_a_pod(
    offers: OfferFactory, store: ClusterStore, server: WatchServer
):
    limit_disks(server, 2)
    server.put(VOLUMES, volume_of("left"))
    source = {"persistentVolumeName": "pv-left"}
    spec = {"attacher": DRIVER, "nodeName": "gpu-1", "source": source}
    server.put(ATTACHMENTS, {"metadata": {"name": "csi-1"}, "spec": spec})
    assert (await foretell(offers, store, "ada")).outcome is Outcome.WAITS


@pytest.mark.parametrize("resource", ["csinodes", "persistentvolumes"])
async def test_limits_that_may_not_be_read_close_no_node(
    offers: OfferFactory, store: ClusterStore, server: WatchServer, resource: str
):
    server.denied = {(verb, resource) for verb in ("list", "watch")}
    limit_disks(server, 1)
    assert (await foretell(offers, store, "ada")).outcome is Outcome.NOW


STORAGE_CLASS = {"metadata": {"name": "fast"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
DEFAULT_CLASS = {
    **STORAGE_CLASS,
    "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
}


@pytest.mark.parametrize(
    ("storage_class", "named", "expected"),
    [
        pytest.param(STORAGE_CLASS, "fast", Outcome.WAITS, id="of a named class"),
        pytest.param(DEFAULT_CLASS, None, Outcome.WAITS, id="of the default class"),
        pytest.param({**STORAGE_CLASS, "provisioner": "nfs"}, "fast", Outcome.NOW, id="of another driver"),
    ],
)
async def test_a_disk_that_is_still_to_be_made_counts_by_its_storage_class(
    offers: OfferFactory,
    store: ClusterStore,
    server: WatchServer,
    storage_class: dict[str, Any],
    named: str | None,
    expected: Outcome,
):
    limit_disks(server, 1)
    server.put(STORAGE_CLASSES, storage_class)
    server.status[f"{CLAIMS}/new"] = 404
    assert (await foretell(offers, store, "new", new_claims={"new": named})).outcome is expected


@pytest.mark.parametrize(
    ("new_nodes", "resource", "expected"),
    [
        pytest.param("possible", "nvidia.com/gpu", Outcome.UNKNOWN, id="nodes of the type may be added"),
        pytest.param("possible", "amd.com/gpu", Outcome.NEVER, id="nodes of another type may be added"),
        pytest.param("none", "nvidia.com/gpu", Outcome.NEVER, id="no nodes are added"),
    ],
)
async def test_a_pod_with_gpus_of_an_unknown_type_may_get_the_new_nodes_of_the_types_with_its_resource(
    offers: OfferFactory, store: ClusterStore, server: WatchServer, new_nodes: str, resource: str, expected: Outcome
):
    server.put(NODES, CPU_NODE)
    a100 = {**SETTINGS["gpus"]["a100"], "new_nodes": new_nodes}
    offer = await offers.make_offer(
        offers.parse({**SETTINGS, "gpus": {"a100": a100}, "new_nodes": "none"}), store, image="base"
    )
    container = {"name": "notebook", "resources": {"limits": {resource: "9"}}}
    pod = await offer.add_volume_topology(
        {"metadata": {"name": "jupyter-ada", "namespace": "hub"}, "spec": {"containers": [container]}}
    )
    assert pod is not None
    assert offer.predict_verdict(pod, gpu=None).outcome is expected
