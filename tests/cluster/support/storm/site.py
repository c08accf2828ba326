"""Where a storm rages: nodes with its GPU types, and a hub whose servers one stand-in answers for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api

from bench.spawn import WEB_SERVER
from devcluster import Cluster
from devcluster.simulated import Pool
from tests.cluster.support.mishaps import delete_node
from tests.cluster.support.pods import USER_ANNOTATION
from tests.cluster.support.storm.claims import Server
from tests.cluster.support.storm.counter import SERVER
from tests.cluster.support.storm.world import CARD_LABEL, REAL, TAINT, TYPES

ROOM = {"cpu": "4000", "memory": "16Ti", "pods": "400"}
"""More of everything than users take: only rules and GPUs limit."""


@contextmanager
def card_nodes(cluster: Cluster, api: ApiClient, *, count: int, gpus: int) -> Iterator[list[dict[str, Any]]]:
    """Add nodes with the storm's GPU types, and keep all servers of other types off the one that runs pods.

    :param count: nodes of each type.
    :param gpus: on each of them.
    """
    core = CoreV1Api(api)
    pools = [
        Pool(name=f"storm-{slug}", count=count, allocatable={**ROOM, resource: str(gpus)}, labels={CARD_LABEL: slug})
        for slug, resource in TYPES.items()
        if slug != REAL
    ]
    made = [node for pool in pools for node in pool.nodes()]
    taints = core.read_node(cluster.real_node).spec.taints or []
    taint = {"key": TAINT, "value": "yes", "effect": "NoSchedule"}
    own = {"metadata": {"labels": {CARD_LABEL: REAL}}, "spec": {"taints": [*taints, taint]}}
    try:
        core.patch_node(cluster.real_node, own)
        for node in made:
            core.create_node(node)
        yield made
    finally:
        core.patch_node(
            cluster.real_node, {"metadata": {"labels": {CARD_LABEL: None}}, "spec": {"taints": taints or None}}
        )
        for node in made:
            delete_node(api, node["metadata"]["name"])


def stood_in(port: int) -> dict[str, Any]:
    """Return settings for KubeSpawner.

    Where pods run, a web server stands in for JupyterLab; the hub asks one that stands in for all.

    :param port: of the stand-in.
    """
    return {
        "cmd": WEB_SERVER,
        "volumes": [],
        "volume_mounts": [],
        "working_dir": "/",
        "pod_connect_ip": "127.0.0.1",
        "port": port,
        "storage_pvc_ensure": True,
        "storage_capacity": "1Mi",
    }


def claimed(api: ApiClient, namespace: str) -> set[Server]:
    """Return the servers for which there is a volume claim."""
    claims = CoreV1Api(api).list_namespaced_persistent_volume_claim(namespace).items
    found = [claim.metadata.annotations for claim in claims]
    return {(annotations[USER_ANNOTATION], annotations.get(SERVER, "")) for annotations in found}
