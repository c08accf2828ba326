"""A store inside the test's own process, with the rights a hub has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kubernetes.client import ApiClient as AdminClient
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from devcluster import Cluster
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply_rbac, ensure_namespace
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.kube.store import ClusterStore, StoreTiming


def hub_kubeconfig(cluster: Cluster, api: AdminClient, namespace: str) -> Path:
    """Give the ServiceAccount of a namespace what ``helm-values/rbac.yaml`` gives a hub; return its kubeconfig."""
    ensure_namespace(api, namespace)
    apply_rbac(api, namespace)
    return cluster.service_account_kubeconfig(namespace, SERVICE_ACCOUNT)


@asynccontextmanager
async def watched(kubeconfig: Path, *, pace: StoreTiming | None = None) -> AsyncIterator[ClusterStore]:
    configuration = Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with ApiClient(configuration) as connection:
        store = ClusterStore(CoreV1Api(connection), pace=pace)
        try:
            yield store
        finally:
            await store.stop()


def free(inventory: Inventory, nodes: tuple[str, ...], resource: str) -> tuple[int, ...] | None:
    """Return what is free on each node, None where that is not known."""
    if inventory.occupancy is None:
        return None
    return tuple(inventory.occupancy.get_free(name).get(resource, 0) for name in nodes)
