"""The REST API of a hub that never waits for a server before it answers, which is zero-to-jupyterhub's default."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers


@pytest.fixture(scope="module")
def hasty(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    """The servers of a hub with ``slow_spawn_timeout: 0``."""
    extra = {
        "JupyterHub": {"tornado_settings": {"slow_spawn_timeout": 0}},
        "KubeSpawner": {"storage_pvc_ensure": True, "storage_capacity": "1Mi"},
    }
    with Hub(cluster, HubSettings(namespace="hasty", gpuspawner=offer(cluster), extra=extra)) as hub:
        yield Servers(hub, Pods(api, "hasty"))


def test_a_wrong_field_is_reported_by_the_progress_and_leaves_nothing(hasty: Servers) -> None:
    answer = hasty.ask("mistaken", {"cpu": 1000})

    # The hub accepts before it has looked at the options.
    assert answer.status == 202, answer
    told = hasty.wait_told("mistaken", "cpu")
    assert "4" in told
    assert (hasty.pods.find("mistaken"), "mistaken" in hasty.pods.claims()) == (None, False)
