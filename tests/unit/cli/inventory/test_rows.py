from __future__ import annotations

from typing import Any

from gpuspawner.cli.common.output import Document, Paint
from gpuspawner.cli.inventory.rows import describe_types, format_type_cells, format_type_table
from tests.unit.cli.conftest import A100, Parsed, gpu_node, gpu_pod, settings, view_cluster_once
from tests.unit.kube.watch_server import NODES, PODS, WatchServer


async def rows(parsed: Parsed, values: Any = None) -> dict[str, Document]:
    return {gpu["slug"]: gpu for gpu in describe_types(await view_cluster_once(parsed(values=values)))}


async def test_each_type_is_counted_as_the_form_counts_it(parsed: Parsed, server: WatchServer):
    server.put(NODES, gpu_node("gpu-2", gpus=8, working=7), gpu_node("gpu-3", unschedulable=True))
    server.put(PODS, gpu_pod("other", on="gpu-2", gpus=2), gpu_pod("waits", on=None, gpus=3))
    found = (await rows(parsed))["a100-80gb"]
    assert {name: found[name] for name in ("nodes", "total", "healthy", "free", "largest_free", "waiting")} == {
        "nodes": 3,
        "total": 16,
        "healthy": 15,
        "free": 8,
        "largest_free": 5,
        "waiting": 3,
    }


async def test_nodes_that_a_taint_keeps_for_others_are_distinguished(parsed: Parsed, server: WatchServer):
    taints = [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "team", "value": "x", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    server.put(NODES, gpu_node("gpu-2", taints=taints))
    row = (await rows(parsed))["a100-80gb"]
    assert (row["nodes"], row["reserved_nodes"], row["total"]) == (1, 1, 4)
    assert [(taint["key"], taint["tolerated"]) for taint in row["taints"]] == [
        ("team", False),
        ("nvidia.com/gpu", True),
    ]
    assert format_type_cells(row)[4] == "1 (+1 reserved)"
    assert format_type_cells(row)[-2] == "team=x:NoSchedule (not tolerated), nvidia.com/gpu:NoSchedule"


async def test_what_all_servers_tolerate_keeps_no_node_from_them(parsed: Parsed, server: WatchServer):
    server.put(NODES, gpu_node("gpu-2", taints=[{"key": "team", "effect": "NoSchedule"}]))
    row = (await rows(parsed, {"singleuser": {"extraTolerations": [{"key": "team", "operator": "Exists"}]}}))[
        "a100-80gb"
    ]
    assert (row["nodes"], row["reserved_nodes"], row["total"], row["free"]) == (2, 0, 8, 7)
    assert [taint["tolerated"] for taint in row["taints"]] == [True]


async def test_without_nodes_nothing_is_zero(parsed: Parsed, server: WatchServer):
    server.denied = {("list", "nodes")}
    row = (await rows(parsed, settings(gpus={"big": {"resource": "nvidia.com/gpu"}})))["big"]
    assert {row[name] for name in ("nodes", "total", "healthy", "free", "largest_free")} == {None}
    assert format_type_cells(row)[4:9] == ("?", "?", "?", "?", "?")


async def test_without_pods_what_there_is_is_known_and_what_is_free_is_not(parsed: Parsed, server: WatchServer):
    server.denied = {("list", "pods")}
    assert format_type_cells((await rows(parsed))["a100-80gb"])[4:9] == ("1", "4", "4", "?", "?")


async def test_hidden_types_are_listed_and_for_no_user(parsed: Parsed):
    hidden = {"a100": {"enabled": False, "resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.product": [A100]}}}
    row = (await rows(parsed, settings(gpus=hidden)))["a100"]
    assert (row["offered"], row["total"], format_type_cells(row)[-1]) == (False, 4, "hidden by the settings")


async def test_the_users_of_a_type_are_printed_where_there_are_values(parsed: Parsed):
    assert "usable_by" not in (await rows(parsed))["a100-80gb"]
    values = settings(policy={"default": {"max_gpus": 0}, "groups": {"physics": {"max_gpus": 1}}})
    row = (await rows(parsed, values))["a100-80gb"]
    assert row["usable_by"] == {"all_users": False, "groups": ["physics"], "users": []}
    assert format_type_cells(row)[-1] == "group physics"


async def test_a_table_has_a_line_for_each_type_and_no_empty_column(parsed: Parsed):
    title, line = format_type_table(describe_types(await view_cluster_once(parsed())), paint=Paint(is_on=False))
    assert title.split("  ")[0] == "TYPE"
    assert "FOR" not in title.split()
    assert line.split()[0] == "a100-80gb"


def test_a_table_of_nothing_says_so():
    assert list(format_type_table((), paint=Paint(is_on=False))) == ["No GPU types."]
