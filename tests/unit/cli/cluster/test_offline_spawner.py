from __future__ import annotations

import kubespawner.clients
import kubespawner.spawner
import pytest

from gpuspawner._resources import data_dir
from gpuspawner.cli.cluster.cluster_view import open_cluster_viewer
from gpuspawner.cli.cluster.offline_spawner import open_offline_spawner
from gpuspawner.cli.explain.explanation import explain_choice
from gpuspawner.cli.values.helm_values import load_values
from gpuspawner.core.catalog.policy_model import Person
from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.cli.conftest import Parsed, settings

OVERLAYS = data_dir("helm-values")
ADA = Person(name="ada", groups=frozenset({"physics"}))


async def test_it_is_the_persons_spawner_with_the_values_as_its_traits(parsed: Parsed):
    values = {"singleuser": {"cpu": {"limit": 3}}, "hub": {"config": {"KubeSpawner": {"image": "a/b:1"}}}}
    async with open_cluster_viewer(parsed(values=values)) as onlooker, open_offline_spawner(onlooker, ADA) as spawner:
        assert (spawner.cpu_limit, spawner.image, spawner.namespace) == (3, "a/b:1", "jhub")
        assert (spawner.pod_name, [group.name for group in spawner.user.groups]) == ("jupyter-ada", ["physics"])
        assert (await spawner.get_pod_manifest()).spec.containers[0].image == "a/b:1"


async def test_files_that_only_a_hub_has_are_not_looked_for(parsed: Parsed):
    values = settings(settings_files=["/no/such/folder"])
    async with open_cluster_viewer(parsed(values=values)) as onlooker, open_offline_spawner(onlooker, ADA) as spawner:
        assert spawner.settings_files == []


async def test_it_speaks_through_the_connection_there_is_and_leaves_nothing_behind(parsed: Parsed):
    load_config, clients = kubespawner.spawner.load_config, dict(kubespawner.clients._client_cache)
    async with open_cluster_viewer(parsed()) as onlooker:
        async with open_offline_spawner(onlooker, ADA) as spawner:
            assert spawner.api.api_client is onlooker.cluster.client
            assert kubespawner.clients.shared_client("CoreV1Api") is onlooker.cluster.core
        assert kubespawner.spawner.load_config is load_config
        assert kubespawner.clients._client_cache == clients
    assert type(spawner).reflectors is not GPUSpawner.reflectors


async def test_what_kubespawner_does_not_accept_is_an_error_of_the_settings(parsed: Parsed):
    values = {"hub": {"config": {"KubeSpawner": {"cpu_limit": "many"}}}}
    async with open_cluster_viewer(parsed(values=values)) as onlooker:
        with pytest.raises(SettingsError, match="cpu_limit"):
            async with open_offline_spawner(onlooker, ADA) as spawner:
                assert spawner.cpu_limit


@pytest.mark.parametrize("overlay", sorted(path.name for path in OVERLAYS.glob("*.yaml") if path.name != "rbac.yaml"))
async def test_a_pod_can_be_made_of_every_overlay_that_is_shipped(parsed: Parsed, overlay: str):
    values = load_values([str(OVERLAYS / "gpuspawner.yaml"), str(OVERLAYS / overlay)]).merged
    async with open_cluster_viewer(parsed(values=values)) as onlooker, open_offline_spawner(onlooker, ADA) as spawner:
        found = await explain_choice(spawner, None, offer=(await onlooker.read_view()).offer, asks_policy=True)
    assert (found.invalid, found.manifest is not None) == ((), True)
