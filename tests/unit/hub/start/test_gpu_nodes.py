"""A server without a GPU must stay off GPU nodes only where its finished pod certainly starts on another node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.core.request.selection import validate
from gpuspawner.core.verdict.verdict import Outcome
from gpuspawner.hub.form.live import build_live
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.preflight import draft_pod
from tests.unit.hub.conftest import A100, SETTINGS, MakeSpawner, node
from tests.unit.hub.followed import admit
from tests.unit.hub.starts import begin
from tests.unit.kube.watch_server import NODES, PODS, WatchServer, eventually, pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU_NODE = node("gpu-1", {"nvidia.com/gpu.product": A100, ZONE: "a", HOST: "gpu-1"}, **{"nvidia.com/gpu": "4"})
CPU_NODE = node("cpu-1", {ZONE: "b", HOST: "cpu-1"})
FOUR_FIT = {"cpu": 8, "memory": "1G"}
"""Half of the cores are requested, of which the CPU node has 16."""
HOME = {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "claim-ada"}}]}
CLAIM, VOLUME = "/persistentvolumeclaims/claim-ada", "/api/v1/persistentvolumes/pv-1"


@pytest.fixture(autouse=True)
def cluster(server: WatchServer) -> None:
    server.put(NODES, GPU_NODE, CPU_NODE)


def put_home(server: WatchServer, spawner: GPUSpawner, *, key: str, value: str) -> None:
    """Put the volume behind the user's claim where a node's label has a value."""
    metadata = {"name": "claim-ada", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    server.bodies[f"/api/v1/namespaces/{spawner.namespace}{CLAIM}"] = json.dumps(
        {"metadata": metadata, "spec": {"volumeName": "pv-1", "accessModes": ["ReadWriteOnce"]}}
    )
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    server.bodies[VOLUME] = json.dumps({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})


@asynccontextmanager
async def started(
    server: WatchServer, spawners: Iterable[GPUSpawner], options: Any = None
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the pods that the API server is sent when servers are started at the same time, in their order."""
    starts, before = [], len(server.requests)
    for spawner in spawners:
        spawner.user_options = options or {}
        spawner.clear_state()
        starts.append(spawner.start())

    def created() -> list[Any]:
        sent = (each for each in server.requests[before:] if each.method == "POST" and each.path.endswith("/pods"))
        return [each for each in sent if "dryRun" not in each.query]

    try:
        await eventually(lambda: len(created()) == len(starts) or any(start.done() for start in starts))
        for start in starts:
            if start.done():
                start.result()  # the error of a refused start
        yield [await each.json() for each in created()]
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)


def is_kept_off(manifest: dict[str, Any]) -> bool:
    """Return whether a pod must not run on the GPU node."""
    affinity = manifest["spec"]["affinity"]["nodeAffinity"]
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    excluded = {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": [A100]}
    return bool(terms) and all(excluded in term["matchExpressions"] for term in terms)


async def foretell(spawner: GPUSpawner, options: dict[str, Any]) -> Outcome:
    """Return what the form says."""
    offer = await spawner.make_offer()
    found = await build_live(spawner, offer, selection=validate(options, offer.catalog))
    return Outcome.UNKNOWN if found.verdict is None else found.verdict.outcome


async def test_a_server_is_kept_off_gpu_nodes_while_another_node_has_room(
    make_spawner: MakeSpawner, server: WatchServer
):
    async with started(server, [make_spawner()]) as (manifest,):
        assert is_kept_off(manifest)


async def test_the_admins_required_affinity_holds_as_well(make_spawner: MakeSpawner, server: WatchServer):
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    async with started(server, [make_spawner(kubespawner={"node_affinity_required": [term]})]) as (manifest,):
        (sent,) = manifest["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
    assert term["matchExpressions"][0] in sent["matchExpressions"]
    assert is_kept_off(manifest)


async def test_a_server_whose_runtime_class_selects_gpu_nodes_is_not_kept_off_them(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    admit(server, spawner, nodeSelector={ZONE: "a"})
    async with started(server, [spawner]) as (manifest,):
        assert not is_kept_off(manifest)


async def test_the_affinity_that_admission_adds_is_not_sent(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    admit(server, spawner, affinity={"nodeAffinity": required})
    async with started(server, [spawner]) as (manifest,):
        assert (is_kept_off(manifest), ZONE in str(manifest["spec"]["affinity"])) == (True, False)


def use_zone_of_gpu_node(_: Any, pod: Any) -> Any:
    pod.spec.node_selector = {ZONE: "a"}
    return pod


def make_near(key: str) -> dict[str, Any]:
    """Return the affinity of a pod that must run beside the pod ``db``."""
    return {"labelSelector": {"matchLabels": {"role": "db"}}, "namespaces": ["default"], "topologyKey": key}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "nodeAffinityPolicy": "Ignore",
    "labelSelector": {"matchLabels": {"role": "db"}},
}


@pytest.mark.parametrize(
    ("admins", "neighbor"),
    [
        pytest.param({"node_selector": {ZONE: "a"}}, None, id="node selector"),
        pytest.param({"modify_pod_hook": use_zone_of_gpu_node}, None, id="hook"),
        pytest.param({"extra_pod_config": {"nodeSelector": {ZONE: "a"}}}, None, id="extra pod config"),
        pytest.param({"pod_affinity_required": [make_near(HOST)]}, "gpu-1", id="pod affinity"),
        pytest.param({"pod_anti_affinity_required": [make_near(ZONE)]}, "cpu-1", id="pod anti-affinity"),
        pytest.param(
            {"extra_pod_config": {"topologySpreadConstraints": [SPREAD]}, "extra_labels": {"role": "db"}},
            "cpu-1",
            id="topology spread",
        ),
        pytest.param({"extra_containers": [{"name": "s", "resources": {"requests": {"cpu": "16"}}}]}, None, id="cores"),
    ],
)
async def test_a_pod_that_only_the_gpu_node_takes_is_let_onto_it(
    make_spawner: MakeSpawner, server: WatchServer, admins: dict[str, Any], neighbor: str | None
):
    server.put(NODES, node("gpu-1", {**GPU_NODE["metadata"]["labels"]}, **{"nvidia.com/gpu": "4", "cpu": "64"}))
    if neighbor is not None:
        server.put(PODS, pod("db", on=neighbor, gpus=0, labels={"role": "db"}, namespace="default"))
    async with started(server, [make_spawner(kubespawner=admins)]) as (manifest,):
        assert not is_kept_off(manifest)


@pytest.mark.parametrize(("zone", "expected"), [("a", False), ("b", True)], ids=["at the GPU node", "elsewhere"])
async def test_form_and_start_know_where_the_home_is(
    make_spawner: MakeSpawner, server: WatchServer, zone: str, expected: bool
):
    spawner = make_spawner(kubespawner=HOME)
    put_home(server, spawner, key=ZONE, value=zone)
    assert await foretell(spawner, {}) is Outcome.NOW
    async with started(server, [spawner]) as (manifest,):
        assert is_kept_off(manifest) is expected


async def test_a_home_that_the_start_creates_is_looked_at_again(make_spawner: MakeSpawner, server: WatchServer):
    """A storage class may create the volume at once, in the zone of the GPU node."""
    spawner = make_spawner(
        kubespawner={**HOME, "storage_pvc_ensure": True, "storage_capacity": "1Gi", "pvc_name_template": "claim-ada"}
    )
    claim = f"/api/v1/namespaces/{spawner.namespace}{CLAIM}"
    server.status[claim] = 404
    create = spawner._make_create_pvc_request

    async def create_and_bind(*arguments: Any) -> Any:
        made = await create(*arguments)
        del server.status[claim]
        put_home(server, spawner, key=ZONE, value="a")
        return made

    spawner._make_create_pvc_request = create_and_bind
    async with started(server, [spawner]) as (manifest,):
        assert not is_kept_off(manifest)


async def test_servers_that_start_together_are_kept_off_only_as_far_as_there_is_room(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawners = [make_spawner(name=f"user-{number}") for number in range(20)]
    async with started(server, spawners, FOUR_FIT) as manifests:
        kept_off = [is_kept_off(manifest) for manifest in manifests]
    assert (sum(kept_off), len(kept_off)) == (4, 20)
    # Those that have no other place to go are created first.
    assert kept_off == sorted(kept_off, reverse=True)


async def test_a_pod_that_is_not_created_takes_no_room(make_spawner: MakeSpawner, server: WatchServer):
    refused = make_spawner(name="refused", settings={**SETTINGS, "dry_run": False})
    server.status[f"/api/v1/namespaces/{refused.namespace}/pods"] = 403
    await begin(refused, FOUR_FIT)
    manifest = await draft_pod(refused)
    for _ in range(4):
        with pytest.raises(ApiException):
            await refused._make_create_pod_request(manifest, 1)
    server.status.clear()
    async with started(server, [make_spawner()], FOUR_FIT) as (manifest,):
        assert is_kept_off(manifest)


async def test_a_pod_of_unknown_place_is_not_kept_off(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner(kubespawner=HOME)
    server.status[f"/api/v1/namespaces/{spawner.namespace}{CLAIM}"] = 500
    async with started(server, [spawner]) as (manifest,):
        assert not is_kept_off(manifest)


async def test_without_the_pods_of_all_namespaces_no_server_is_kept_off(make_spawner: MakeSpawner, server: WatchServer):
    server.status[PODS] = 403
    async with started(server, [make_spawner()]) as (manifest,):
        assert not is_kept_off(manifest)
