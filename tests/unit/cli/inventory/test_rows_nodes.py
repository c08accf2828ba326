from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.common.output import Document, Paint
from gpuspawner.cli.inventory.rows import describe_nodes, format_node_cells, format_node_table
from tests.unit.cli.conftest import A100, Parsed, gpu_node, settings, view_cluster_once
from tests.unit.kube.watch_server import NODES, WatchServer

NOT_READY = {"status": {**gpu_node("x")["status"], "conditions": [{"type": "Ready", "status": "False"}]}}
NO_RESOURCE = {"status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}}


async def rows(parsed: Parsed, values: Any = None) -> dict[str, Document]:
    return {row["name"]: row for row in describe_nodes(await view_cluster_once(parsed(values=values))) or ()}


async def test_a_node_in_order_says_what_is_free(parsed: Parsed):
    row = (await rows(parsed))["gpu-1"]
    assert list(format_node_cells(row)) == [("gpu-1", "a100-80gb", "nvidia.com/gpu", "3", "4", "ok")]
    gpus = [{"resource": "nvidia.com/gpu", "types": ["a100-80gb"], "free": 3, "total": 4}]
    assert row == {"name": "gpu-1", "gpus": gpus, "why_not": []}


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (gpu_node("n", unschedulable=True), "Cordoned."),
        ({**gpu_node("n"), **NOT_READY}, "Not ready."),
        (
            gpu_node("n", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]),
            "for the time being",
        ),
        (gpu_node("n", taints=[{"key": "team", "effect": "NoSchedule"}]), "no GPU type there tolerates the taint team"),
        (gpu_node("n", working=3), "1 of 4 nvidia.com/gpu on a node does not work"),
        ({**gpu_node("n"), **NO_RESOURCE}, "There are GPUs by the label nvidia.com/gpu.present, and no resource"),
    ],
)
async def test_the_reason_why_a_node_is_left_out_is_printed(
    parsed: Parsed, server: WatchServer, node: dict[str, Any], told: str
):
    server.put(NODES, node)
    found = await rows(parsed)
    assert told in " ".join(found["n"]["why_not"])
    assert found["gpu-1"]["why_not"] == []


async def test_a_node_that_no_type_matches_is_reported_so(parsed: Parsed):
    only = {"t4": {"resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.product": ["Tesla-T4"]}}}
    row = (await rows(parsed, settings(gpus=only, discover_gpus=False)))["gpu-1"]
    assert (row["gpus"][0]["types"], row["why_not"]) == (
        [],
        [
            "nvidia.com/gpu (A100 80 GB) is not offered: no GPU type of the settings matches the labels. "
            "Describe one in gpus, with a match that these nodes meet and those of other types do not.",
        ],
    )


async def test_types_that_the_settings_hide_are_reported(parsed: Parsed):
    hidden = {"a100": {"enabled": False, "resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.product": [A100]}}}
    assert (await rows(parsed, settings(gpus=hidden)))["gpu-1"]["why_not"] == ["The settings hide a100."]


async def test_a_node_without_a_gpu_is_there_as_well(parsed: Parsed, server: WatchServer):
    server.put(NODES, {"metadata": {"name": "cpu"}, **NO_RESOURCE})
    assert list(format_node_cells((await rows(parsed))["cpu"])) == [("cpu", "-", "-", "-", "-", "no GPU")]


async def test_a_plugin_that_is_not_there_leaves_the_number_unknown(parsed: Parsed, server: WatchServer):
    server.put(NODES, gpu_node("gpu-1", gpus=0))
    (gpus,) = (await rows(parsed, settings(gpus={"big": {"resource": "nvidia.com/gpu"}})))["gpu-1"]["gpus"]
    assert (gpus["types"], gpus["total"], gpus["free"]) == (["big"], None, None)


async def test_nodes_that_cannot_be_read_are_not_none(parsed: Parsed, server: WatchServer):
    server.denied = {("list", "nodes")}
    assert describe_nodes(await view_cluster_once(parsed())) is None


async def test_what_comes_from_a_cluster_controls_no_terminal(parsed: Parsed, server: WatchServer):
    taint = {"key": "a\x1b[2J", "effect": "NoSchedule"}
    server.put(NODES, gpu_node("evil", taints=[taint]))
    lines = format_node_table(describe_nodes(await view_cluster_once(parsed())) or (), paint=Paint(is_on=False))
    assert "\x1b" not in "".join(lines)
