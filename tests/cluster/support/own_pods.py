"""Bare pods on a cluster of a test's own, without a hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kubernetes import client

from devcluster import Cluster
from tests.cluster.support.waiting import wait_for

REAL_NODE = {"gpuspawner.jupyter.org/real": "true"}


def start_pod(
    cluster: Cluster,
    name: str,
    *,
    limits: Mapping[str, str] | None = None,
    script: str = "true",
    where: Mapping[str, str] = REAL_NODE,
) -> client.V1Pod:
    """Run a shell script, and then nothing, in a pod on a node with these labels; return the pod once it runs."""
    container = {
        "name": "main",
        "image": cluster.notebook_image,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"trap 'exit 0' TERM; {script}; sleep 1000 & wait"],
        "resources": {"limits": dict(limits or {})},
    }
    spec = {"containers": [container], "nodeSelector": dict(where)}
    with cluster.api_client() as api:
        core = client.CoreV1Api(api)
        core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
        return wait_for(lambda: _running(core, name), f"pod {name} running", timeout_s=30)


@contextmanager
def running_pod(cluster: Cluster, name: str, **options: Any) -> Iterator[client.V1Pod]:
    """Do as ``start_pod`` does, and delete the pod afterwards, whatever happened meanwhile."""
    try:
        yield start_pod(cluster, name, **options)
    finally:
        with cluster.api_client() as api:
            core = client.CoreV1Api(api)
            core.delete_namespaced_pod(name, "default", grace_period_seconds=5)
            wait_for(lambda: name not in _names(core), f"pod {name} gone", timeout_s=30)


def log_of(cluster: Cluster, name: str, *, until: str) -> list[str]:
    """Wait until a pod's log holds the line ``until`` and return the lines before it."""
    with cluster.api_client() as api:
        core = client.CoreV1Api(api)
        lines = wait_for(lambda: _lines_until(core, name, until), f"{until!r} in the log of {name}", timeout_s=30)
    return lines[: lines.index(until)]


def _running(core: client.CoreV1Api, name: str) -> client.V1Pod | None:
    pod = core.read_namespaced_pod(name, "default")
    assert pod.status.phase in {"Pending", "Running"}, pod.status
    return pod if pod.status.phase == "Running" else None


def _names(core: client.CoreV1Api) -> set[str]:
    return {pod.metadata.name for pod in core.list_namespaced_pod("default").items}


def _lines_until(core: client.CoreV1Api, name: str, until: str) -> list[str] | None:
    lines = core.read_namespaced_pod_log(name, "default").splitlines()
    return lines if until in lines else None
