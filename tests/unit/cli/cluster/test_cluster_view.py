from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gpuspawner.cli.cluster.cluster_view import open_cluster_viewer
from gpuspawner.cli.cluster.connection import ClusterError
from gpuspawner.core.catalog.model import OwnAmount
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.verdict.availability import count_availability
from tests.unit.cli.conftest import Parsed, gpu_pod, settings, view_cluster_once, written_kubeconfig
from tests.unit.kube.watch_server import PODS, WatchServer, eventually


async def test_nodes_and_settings_are_merged_as_in_a_hub(parsed: Parsed):
    seen = await view_cluster_once(parsed(values=settings(gpus={"big": {"resource": "amd.com/gpu", "max_count": 2}})))
    assert list(seen.catalog.gpus) == ["big", "a100-80gb"]
    _, a100 = count_availability(seen.catalog.gpus.values(), seen.inventory, tolerations=seen.tolerations)
    assert (a100.total, a100.free, seen.cluster.namespace) == (4, 3, "jhub")


async def test_an_onlooker_sees_what_changes(parsed: Parsed, server: WatchServer):
    async with open_cluster_viewer(parsed()) as onlooker:
        before = await onlooker.read_view()
        server.put(PODS, gpu_pod("another", gpus=2))
        await eventually(lambda: onlooker.store.age_s is not None and len(server.streams) > 1)
        after = before
        async with asyncio.timeout(10):
            while after.inventory.generation == before.inventory.generation:
                await asyncio.sleep(0.01)  # a look alone need not let anything else run
                after = await onlooker.read_view()
        (found,) = count_availability(after.catalog.gpus.values(), after.inventory)
        assert found.free == 1


async def test_wrong_settings_are_reported_before_the_cluster_is_asked(parsed: Parsed, server: WatchServer):
    with pytest.raises(SettingsError, match=r"gpus\.big"):
        await view_cluster_once(parsed(values=settings(gpus={"big": {"resorce": "amd.com/gpu"}})))
    assert server.requests == []


async def test_servers_tolerate_what_the_chart_and_the_values_say(parsed: Parsed):
    own = {"key": "mine", "operator": "Exists"}
    seen = await view_cluster_once(parsed(values={"singleuser": {"extraTolerations": [own]}}))
    users = Toleration(key="hub.jupyter.org/dedicated", operator="Equal", value="user", effect="NoSchedule")
    other = replace(users, key="hub.jupyter.org_dedicated")
    assert seen.tolerations == (users, other, Toleration(key="mine", operator="Exists"))


async def test_resources_of_the_chart_hold_as_in_the_hub(parsed: Parsed):
    own = {"cpu": {"limit": 2}, "extraResource": {"limits": {"example.com/nic": 1, "amd.com/gpu": 1}}}
    catalog = (await view_cluster_once(parsed(values={"singleuser": own}))).catalog
    assert (catalog.cpu and catalog.cpu.own, catalog.memory and catalog.memory.own, catalog.dropped_gpus) == (
        OwnAmount(limit=2000),
        OwnAmount(guarantee=1024**3),
        {"amd.com/gpu": 1},
    )


async def test_a_cluster_that_does_not_answer_is_no_empty_one(tmp_path: Path, parsed: Parsed):
    arguments = parsed()
    arguments.kubeconfig = written_kubeconfig("http://127.0.0.1:1", tmp_path)
    seen = await view_cluster_once(arguments)
    assert (seen.inventory.nodes, seen.inventory.reason) == (None, "The Kubernetes API server cannot be reached.")


async def test_the_hubs_account_is_the_one_of_the_chart_or_of_the_values(parsed: Parsed, server: WatchServer):
    server.bodies["/api/v1/namespaces/jhub/serviceaccounts/hub"] = "{}"
    assert (await view_cluster_once(parsed("--as-hub"))).cluster.account == "jhub:hub"
    server.bodies["/api/v1/namespaces/jhub/serviceaccounts/mine"] = "{}"
    values = {"hub": {"serviceAccount": {"name": "mine"}}}
    assert (await view_cluster_once(parsed("--as-hub", values=values))).cluster.account == "jhub:mine"


async def test_values_below_a_parent_charts_key_are_the_charts(parsed: Parsed, server: WatchServer):
    server.bodies["/api/v1/namespaces/jhub/serviceaccounts/mine"] = "{}"
    own = {"hub": {"serviceAccount": {"name": "mine"}}, "singleuser": {"extraTolerations": [{"key": "mine"}]}}
    seen = await view_cluster_once(parsed("--as-hub", values={"jupyterhub": own}))
    assert seen.cluster.account == "jhub:mine"
    assert [each.key for each in seen.tolerations][2:] == ["mine"]


async def test_an_account_that_is_no_name_is_refused(parsed: Parsed, server: WatchServer):
    values = {"hub": {"serviceAccount": {"name": "x\r\nImpersonate-User: admin"}}}
    with pytest.raises(ClusterError, match="is no ServiceAccount"):
        await view_cluster_once(parsed("--as-hub", values=values))
    assert server.requests == []
