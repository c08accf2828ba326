from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import pytest

from gpuspawner.cli.inventory import command
from tests.unit.cli.conftest import Call, gpu_node, gpu_pod, settings
from tests.unit.kube.watch_server import NODES, PODS, REVIEWS, WatchServer

COMMAND = command


async def test_a_table_has_the_types_and_with_nodes_the_nodes(call: Call):
    code, told = await call()
    assert (code, told.splitlines()[1].split()[0], "gpu-1" in told) == (0, "a100-80gb", False)
    code, told = await call("--nodes")
    assert "gpu-1" in told


RESOURCE_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLICE = {
    "metadata": {"name": "s"},
    "spec": {"driver": "gpu.nvidia.com", "nodeName": "dra", "pool": {"name": "dra"}, "devices": [{"name": "gpu-0"}]},
}


async def test_a_node_with_devices_of_a_dra_driver_is_not_called_one_without_a_gpu(call: Call, server: WatchServer):
    server.put(NODES, {**gpu_node("dra", gpus=0), "metadata": {"name": "dra"}})
    server.put(RESOURCE_SLICES, SLICE)
    _, told = await call("--nodes", "--output", "json")
    why_not = {node["name"]: node["why_not"] for node in json.loads(told)["nodes"]}["dra"]
    assert [sentence.partition(", and")[0] for sentence in why_not] == [
        "Its ResourceSlices hold 1 device of the DRA driver gpu.nvidia.com"
    ]
    _, told = await call("--nodes")
    assert "no GPU" not in told.replace("no GPU type", "")


async def test_whether_there_are_devices_of_dra_drivers_is_unknown_without_slices(call: Call, server: WatchServer):
    server.put(RESOURCE_SLICES, SLICE)
    server.denied = {("list", "resourceslices")}
    assert "Whether DRA drivers have devices on the nodes cannot be told" in (await call())[1]


async def test_what_may_not_be_read_is_unknown_with_the_reason(call: Call, server: WatchServer):
    server.denied = {("list", "pods")}
    code, told = await call()
    assert code == 0
    assert "? The hub may not list the pods of all namespaces." in told
    server.denied = {("list", "nodes")}
    code, told = await call("--output", "json", values=settings(gpus={"big": {"resource": "nvidia.com/gpu"}}))
    found = json.loads(told)
    assert (code, found["unknown"]) == (3, ["The hub may not list the cluster's nodes."])
    assert found["gpu_types"][0]["total"] is None


async def test_unknown_numbers_are_marked_as_unknown(call: Call, server: WatchServer):
    server.put(NODES, gpu_node("gpu-1", gpus=0))
    _, told = await call(values=settings(gpus={"big": {"resource": "nvidia.com/gpu"}}))
    assert "? How many big there are cannot be told" in told


async def test_nodes_to_look_at_are_pointed_at(call: Call, server: WatchServer):
    server.put(NODES, gpu_node("gpu-2", working=2))
    _, told = await call()
    assert "1 node needs attention: see --nodes." in told
    _, told = await call("--output", "json")
    assert [(each["concern"], each["nodes"]) for each in json.loads(told)["concerns"]] == [("broken", ["gpu-2"])]


async def test_as_another_account_its_rights_are_listed(call: Call, server: WatchServer):
    server.bodies["/api/v1/namespaces/jhub/serviceaccounts/hub"] = "{}"
    _, told = await call("--as-hub")
    assert "Rights of the ServiceAccount jhub:hub" in told
    _, told = await call()
    assert "Rights" not in told
    assert {each.headers.get("Impersonate-User") for each in server.requests if each.path == REVIEWS} == {
        None,
        "system:serviceaccount:jhub:hub",
    }


async def test_watching_prints_a_document_a_line_until_it_is_ended(call: Call, server: WatchServer):
    arguments = ["inventory", "--watch", "--output", "json", "--kubeconfig", call.kubeconfig]
    command = "import sys; from gpuspawner.cli.main import main; sys.exit(main(sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, *arguments, stdout=asyncio.subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"}
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        first = json.loads(await process.stdout.readline())
        server.put(PODS, gpu_pod("another", gpus=2))
        second = json.loads(await process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    assert [each["gpu_types"][0]["free"] for each in (first, second)] == [3, 1]


@pytest.mark.parametrize("parent", [False, True])
async def test_settings_that_only_a_hub_can_read_are_named(call: Call, parent: bool):
    values = settings(settings_files=["/etc/gpuspawner"])
    code, told = await call("--output", "json", values={"jupyterhub": values} if parent else values)
    assert (code, json.loads(told)["unknown"]) == (0, [])
    assert call.notes.getvalue().startswith("note: Settings in files on the hub are not read (settings_files)")
