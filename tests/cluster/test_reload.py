"""Settings in a folder that kubelet would swap: the hub takes them up without a restart, and wrong ones not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import visit
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for
from tests.cluster.test_metrics import scraped
from tests.unit.settings.mounts import Mount

NAMESPACE = "reload"
OFTEN_S = 10
"""The hub looks once a second, at what has not changed for a second."""


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path / "settings", {"10-site.yaml": f"gpus: {{{WHOLE_CARD.slug}: {{enabled: false}}}}"})


@pytest.fixture
def servers(cluster: Cluster, api: ApiClient, mount: Mount) -> Iterator[Servers]:
    """The servers of a hub of its own, whose settings can be changed."""
    settings = offer(cluster, settings_files=[str(mount.folder)])
    open_to_all = {"JupyterHub": {"authenticate_prometheus": False}}
    with Hub(cluster, HubSettings(namespace=NAMESPACE, gpuspawner=settings, extra=open_to_all)) as hub:
        yield Servers(hub, Pods(api, NAMESPACE))


def test_settings_change_while_the_hub_runs(cluster: Cluster, servers: Servers, mount: Mount) -> None:
    hub = servers.hub
    visitor = visit(hub.url, "early")

    def offered() -> set[str]:
        return set(visitor.get("/hub/spawn").offered())

    at_first, before = offered(), scraped(hub)
    with servers.running({"runner": {"image": "lab"}}):
        good = {"new": {"display_name": "New", **_described(cluster)}, WHOLE_CARD.slug: {"enabled": False}}
        mount.swap({"10-site.yaml": json.dumps({"gpus": good})})
        wait_for(lambda: "new" in offered() or None, "the form with the new type", timeout_s=OFTEN_S)

        mount.swap({"10-site.yaml": json.dumps({"gpus": {"new": {"max_cnt": 1}}})})
        bad = wait_for(
            lambda: found if not (found := scraped(hub))["settings_last_reload_successful"] else None,
            "the mistake told as a metric",
            timeout_s=OFTEN_S,
        )
        after_the_mistake = offered()
        with servers.running({"late": {"image": "lab", "gpu": "new", "gpu_count": 1}}):
            node = servers.pods.of("late").spec.node_name
        runs_on = servers.state("runner")["ready"]

    assert "new" not in at_first
    assert before["settings_last_reload_successful"] == 1
    assert WHOLE_CARD.slug not in at_first | after_the_mistake
    assert "new" in after_the_mistake
    at = "settings_last_reload_success_timestamp_seconds"
    assert bad[at] > before[at]
    assert node == cluster.real_node
    assert runs_on
    told = [line for line in hub.log.read_text().splitlines() if "The settings stay as they were" in line]
    assert len(told) == 1
    assert f"gpus.new.max_cnt: there is no such key. Did you mean 'max_count'? ({mount.folder}/10-site.yaml)" in told[0]


def _described(cluster: Cluster) -> dict[str, object]:
    """Return how the node that runs pods is described."""
    return {"resource": "nvidia.com/gpu", "match": {"kubernetes.io/hostname": [cluster.real_node]}, "max_count": 1}
