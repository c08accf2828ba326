"""Changes to the cluster while it is measured, always as its administrator."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kubernetes.client import ApiClient, ApiException, CoreV1Api

from devcluster import DevclusterError
from devcluster.hub_rbac import ensure_namespace
from devcluster.processes import poll

RESOURCE = "nvidia.com/gpu"
NODES = {"a100-80gb-1": 8, "a100-80gb-2": 8}
"""The simulated nodes of the type that is measured, and how many GPUs each has (devcluster/fleet.yaml)."""
TYPE = "a100-80gb"
LABEL = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
TOTAL = sum(NODES.values())
NAMESPACE = "bench-binding"
TIMEOUT_S = 30
HTTP_NOT_FOUND = 404


class Cards:
    """The GPUs that are measured, taken one after the other by pods that no scheduler looks at."""

    def __init__(self, api: ApiClient) -> None:
        self._core: Any = CoreV1Api(api)
        self._places = [node for node, gpus in NODES.items() for _ in range(gpus)]
        self._taken = 0
        prepare_namespace(api, NAMESPACE)

    @property
    def free(self) -> int:
        """Return how many are free."""
        return TOTAL - self._taken

    def take(self) -> float:
        """Bind a pod with one GPU, and return when the API server had answered (monotonic, in seconds)."""
        name = f"taker-{self._taken}"
        amounts = {"cpu": "10m", "memory": "16Mi", RESOURCE: "1"}
        answered(
            self._core.create_namespaced_pod(NAMESPACE, unscheduled_pod(name, requests=amounts), _preload_content=False)
        )
        target = {"kind": "Node", "name": self._places[self._taken]}
        body = {"metadata": {"name": name}, "target": target}
        answered(self._core.create_namespaced_pod_binding(name, NAMESPACE, body, _preload_content=False))
        bound = time.monotonic()
        self._taken += 1
        return bound

    def give_back(self) -> None:
        """Delete all these pods, and return when none is left."""
        self._core.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
        if not poll(lambda: not self._core.list_namespaced_pod(NAMESPACE).items, timeout_s=TIMEOUT_S):
            raise DevclusterError("the pods with GPUs do not go away")
        self._taken = 0


def unscheduled_pod(name: str, *, requests: Mapping[str, str], node: str = "") -> dict[str, Any]:
    """Return a pod that nothing schedules.

    :param node: where it is from the beginning; empty: nowhere, until it is bound.
    """
    resources = {"requests": dict(requests), "limits": dict(requests)}
    spec: dict[str, Any] = {
        "schedulerName": "no-scheduler",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name}, "spec": spec}


def prepare_namespace(api: ApiClient, namespace: str) -> None:
    """Create a namespace, and wait for the ServiceAccount without which no pod is let in."""
    ensure_namespace(api, namespace)
    core: Any = CoreV1Api(api)

    def is_there() -> bool:
        try:
            return bool(core.read_namespaced_service_account("default", namespace))
        except ApiException as error:
            if error.status != HTTP_NOT_FOUND:
                raise
            return False

    if not poll(is_there, timeout_s=TIMEOUT_S):
        raise DevclusterError(f"the namespace {namespace} got no ServiceAccount")


def answered(response: Any) -> None:
    """Finish a request whose answer is of no interest: reading it into objects would cost more than all else."""
    response.drain_conn()
    response.release_conn()
