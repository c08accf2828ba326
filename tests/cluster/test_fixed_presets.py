"""Fixed presets on a real hub and cluster: each pod is what its preset says, for the users that it is for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient, V1Pod

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support import nodes
from tests.cluster.support.fixtures import AS_ROOT
from tests.cluster.support.fleet import KINDS
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers

POOL = "pool.example.org/name"
FAR = KINDS["V100"]
PLAIN = {
    "display_name": "Plain",
    "default": True,
    "cpu": "unlimited",
    "cpu_guarantee": 0.05,
    "memory": "512M",
    "memory_guarantee": "64M",
    "kubespawner_override": {
        "node_selector": {POOL: "near"},
        "environment": {"COURSE": "{username}-notes", "KEPT": None},
        "default_url": "/lab/tree/notes",
        "start_timeout": 117,
    },
    "choices": {
        "pool": {
            "display_name": "Pool",
            "entries": {
                "near": {"display_name": "Near", "default": True},
                "far": {
                    "display_name": "Far",
                    "kubespawner_override": {"node_selector": {POOL: "far"}, "environment": {"COURSE": "far"}},
                },
            },
        }
    },
}
PRESETS = {
    "plain": PLAIN,
    "free": {"display_name": "Free", "cpu": "unlimited", "memory": "unlimited"},
    "staff": {"display_name": "Staff", "cpu": 0.5, "memory": "512M", "allowed_groups": ["Staff"]},
}
FAR_CHOICE = {"preset": "plain", "preset_choices": {"pool": "far"}}


@pytest.fixture(scope="module")
def servers(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    far = [node.metadata.name for node in nodes.simulated(api) if FAR.is_on(node.metadata.labels)]
    kubespawner = {**AS_ROOT, "environment": {"KEPT": "no", "BASE": "yes"}}
    settings = HubSettings(
        namespace="fixed-presets",
        gpuspawner={
            "images": {"lab": {"display_name": "JupyterLab", "image": cluster.notebook_image}},
            "only_presets": True,
            "presets": PRESETS,
        },
        extra={
            "KubeSpawner": kubespawner,
            "JupyterHub": {"load_groups": {"staff": {"users": ["grace"]}}},
            "Spawner": {"consecutive_failure_limit": 3},
        },
    )
    with (
        nodes.labelled(api, [cluster.real_node], POOL, "near"),
        nodes.labelled(api, far, POOL, "far"),
        Hub(cluster, settings) as hub,
    ):
        yield Servers(hub, Pods(api, settings.namespace))


def environment(pod: V1Pod) -> dict[str, str]:
    return {each.name: each.value for each in pod.spec.containers[0].env}


def test_a_preset_starts_what_it_says(cluster: Cluster, servers: Servers) -> None:
    with servers.running({"ada": {"preset": "plain"}}):
        pod, state = servers.pods.of("ada"), servers.state("ada")
        variables, resources = environment(pod), pod.spec.containers[0].resources

        assert pod.spec.node_name == cluster.real_node
        assert pod.spec.node_selector == {POOL: "near"}
        assert (variables["COURSE"], variables["BASE"], "KEPT" in variables) == ("ada-notes", "yes", False)
        assert variables["JUPYTERHUB_DEFAULT_URL"] == "/lab/tree/notes"
        assert (resources.limits, resources.requests) == (
            {"memory": str(512 * 2**20)},
            {"cpu": "50m", "memory": str(64 * 2**20)},
        )
        assert state["user_options"] == {
            "v": 1,
            "preset": "plain",
            "preset_choices": {"pool": "near"},
            "profile": "Plain · JupyterLab · 512 MiB",
        }


def test_another_entry_is_bound_to_the_other_pool(api: ApiClient, servers: Servers) -> None:
    with servers.asked("bob", FAR_CHOICE):
        labels = nodes.read(api, servers.pods.wait_bound("bob")).metadata.labels

        assert (labels[POOL], environment(servers.pods.of("bob"))["COURSE"]) == ("far", "far")


def test_unlimited_is_no_limit_in_the_pod(servers: Servers) -> None:
    with servers.running({"carol": {"preset": "free"}}):
        resources = servers.pods.of("carol").spec.containers[0].resources

        assert (resources.limits, resources.requests) == (None, None)


def test_a_preset_is_for_its_group_alone_and_a_refusal_is_no_failure(servers: Servers) -> None:
    refused = [servers.ask("mallory", {"preset": "staff"}) for _ in range(4)]
    wrong = servers.ask("mallory", {"preset": "plain", "preset_choices": {"pool": "moon"}})
    gone = servers.ask("mallory", {"preset": "gone"})

    with servers.asked("grace", {"preset": "staff"}):
        servers.pods.of("grace")

    assert [answer.status for answer in refused] == [403] * 4
    assert "You don't have access to the preset Staff." in refused[0].message
    assert (wrong.status, gone.status) == (400, 400)
    assert "There is no preset 'gone'." in gone.message
    assert servers.pods.find("mallory") is None


def test_after_a_restart_the_stored_preset_starts_again(servers: Servers, api: ApiClient) -> None:
    with servers.asked("dora", FAR_CHOICE):
        servers.pods.wait_bound("dora")
    servers.hub.restart()

    answer = servers.hub.client.start_server("dora")
    node = servers.pods.wait_bound("dora")
    pod = servers.pods.of("dora")
    servers.stop("dora")

    assert answer.status in {201, 202}, answer
    assert nodes.read(api, node).metadata.labels[POOL] == "far"
    assert environment(pod)["COURSE"] == "far"
