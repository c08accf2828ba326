from __future__ import annotations

import json

from gpuspawner.cli.cluster.connection import connect_to_cluster
from gpuspawner.cli.common.output import Paint
from gpuspawner.cli.inventory.command import check_granted_rights, format_rights_table
from tests.unit.cli.conftest import Parsed
from tests.unit.kube.watch_server import REVIEWS, WatchServer


async def test_a_missing_right_is_reported_with_the_loss(parsed: Parsed, server: WatchServer):
    server.denied = {("watch", "nodes")}
    async with connect_to_cluster(parsed()) as cluster:
        found = {right["resource"]: right for right in await check_granted_rights(cluster)}
    assert "Without it the hub finds no GPU types" in found["nodes"].pop("lost")
    assert found["nodes"] == {
        "resource": "nodes",
        "api_group": "",
        "namespaced": False,
        "scope": "cluster",
        "allowed": {"list": True, "watch": False},
    }
    assert found["persistentvolumes"]["lost"] == ""
    (_, line) = format_rights_table([{**found["nodes"], "lost": ""}], paint=Paint(is_on=False))
    assert line == "nodes     cluster  list watch:no"


async def test_a_right_that_the_api_server_leaves_out_is_unknown_and_not_missing(parsed: Parsed, server: WatchServer):
    server.status[REVIEWS] = 500
    async with connect_to_cluster(parsed()) as cluster:
        found = await check_granted_rights(cluster)
    assert {answer for right in found for answer in right["allowed"].values()} == {None}
    assert {right["lost"] for right in found} == {""}
    assert any("list:? watch:?" in line for line in format_rights_table(found, paint=Paint(is_on=False)))


async def test_the_namespace_of_the_servers_is_asked_about_and_the_whole_cluster(parsed: Parsed, server: WatchServer):
    async with connect_to_cluster(parsed()) as cluster:
        await check_granted_rights(cluster)
    asked = [json.loads(await each.text())["spec"]["resourceAttributes"] for each in server.requests]
    of_pods = {(each.get("namespace"), each["verb"]) for each in asked if each["resource"] == "pods"}
    assert of_pods == {
        *((None, verb) for verb in ("list", "watch")),
        *(("jhub", verb) for verb in ("list", "watch", "create", "delete")),
    }
    assert {each.get("subresource") for each in asked if each["resource"] == "localqueues"} == {
        "pendingworkloads",
        "",
    }
    assert "secrets" not in {each["resource"] for each in asked}
