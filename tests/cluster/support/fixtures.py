"""Fixtures of cluster and browser tests: one cluster a run, one hub on it, and the output when a test fails.

A `conftest.py` imports the fixtures by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support import registry as registries
from tests.cluster.support.dump import describe
from tests.cluster.support.pods import Pods
from tests.cluster.support.registry import Registry
from tests.cluster.support.servers import Servers

FLEET = Path(__file__).parents[3] / "devcluster" / "fleet.yaml"
# A cluster that runs already (`python -m devcluster up NAME`) saves its start while a test is being written.
REUSED_CLUSTER = os.environ.get("GPUSPAWNER_TEST_CLUSTER", "")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Start a cluster of this run's own, with the simulated fleet."""
    name = REUSED_CLUSTER or f"test-{os.getpid()}"
    try:
        yield Cluster.up(name=name, simulated_nodes=FLEET)
    finally:  # also when Ctrl-C comes while the cluster starts
        if not REUSED_CLUSTER:
            Cluster.remove(name)


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Iterator[ApiClient]:
    """Connect to the cluster as its administrator."""
    with cluster.api_client() as connected:
        yield connected


def offer(cluster: Cluster, **more: Any) -> dict[str, Any]:
    """Return GPUSpawner settings whose servers fit on a small machine; GPU types are discovered.

    :param more: further keys, as in an administrator's Helm values.
    """
    return {
        "images": {
            "lab": {"display_name": "JupyterLab", "image": cluster.notebook_image},
            "plain": {"display_name": "Plain", "image": cluster.notebook_image, "vendors": []},
            "cuda13": {"display_name": "CUDA 13", "image": cluster.notebook_image, "cuda": "13.0"},
        },
        "cpu": {"min": 0.5, "max": 4, "step": 0.5, "default": 1, "guarantee": 0.05},
        "memory": {"min": "512M", "max": "8G", "step": "512M", "default": "1G", "guarantee": 0.05},
        # The cluster's nodes are all there are, but for those of Karpenter, whose NodePools the hub reads.
        "new_nodes": "none",
        **more,
    }


# Root in the pod, with the capabilities a container runtime gives by default: the hardest case for isolation.
AS_ROOT = {"uid": 0, "gid": 0, "fs_gid": 0, "args": ["--allow-root"]}


@pytest.fixture(scope="session")
def hub(cluster: Cluster) -> Iterator[Hub]:
    """Run a hub whose GPU types all come from node labels, but for one that no node has.

    Users may name images themselves, those that the node can have.
    """
    nowhere = {
        "display_name": "GPU no node has",
        "resource": "nvidia.com/gpu",
        "match": {"nvidia.com/gpu.product": ["NO-SUCH-CARD"]},
        "max_count": 2,
        "tolerations": [{"key": "nowhere", "operator": "Exists", "effect": "NoSchedule"}],
        "environment": {"NOWHERE": "yes"},
        "shm": 0.5,
        "start_timeout": 4,
        # Otherwise a start would be refused at once: nothing here could ever take it.
        "scale_up": {"max_nodes": 1, "gpus_per_node": 2, "minutes": 5},
    }
    settings = HubSettings(
        namespace="hub",
        gpuspawner=offer(
            cluster, gpus={"nowhere": nowhere}, custom_images={"allowed": True, "registries": ["localhost"]}
        ),
        # A volume claim for each user, so that tests can see when there should be none; no pod mounts it.
        extra={"KubeSpawner": {**AS_ROOT, "storage_pvc_ensure": True, "storage_capacity": "1Mi"}},
    )
    with Hub(cluster, settings) as running:
        yield running


@pytest.fixture(scope="session")
def pods(api: ApiClient, hub: Hub) -> Pods:
    return Pods(api, hub.settings.namespace)


@pytest.fixture(scope="session")
def servers(hub: Hub, pods: Pods) -> Servers:
    return Servers(hub, pods)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registries.serving() as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add what the cluster and the hubs looked like to the report of a test that failed."""
    report = yield
    used = getattr(item, "funcargs", {})
    if report.failed and isinstance(used.get("cluster"), Cluster):
        # Also the hub of a fixture that has one, such as a Site or Servers.
        found = (value if isinstance(value, Hub) else getattr(value, "hub", None) for value in used.values())
        hubs = {id(hub): hub for hub in found if isinstance(hub, Hub)}.values()
        report.sections.append(("cluster when the test failed", describe(used["cluster"], hubs)))
    return report
