"""The same question answered without a watch: by a list of all nodes and pods for each page."""

from __future__ import annotations

import time
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api

from bench.freshness.cluster import LABEL, RESOURCE
from devcluster import DevclusterError


def measure(api: ApiClient, *, expected: int, answers: int) -> list[float]:
    """Return how many seconds each of so many answers took.

    :param expected: how many GPUs of the measured type are free all the while.
    """
    times = []
    for _ in range(answers):
        began = time.monotonic()
        free = _free(api)
        times.append(time.monotonic() - began)
        if free != expected:
            raise DevclusterError(f"lists say {free} are free, but {expected} are")
    return times


def _free(api: ApiClient) -> int:
    core: Any = CoreV1Api(api)
    free = {
        node.metadata.name: int(node.status.allocatable[RESOURCE])
        for node in core.list_node().items
        if (node.metadata.labels or {}).items() >= LABEL.items()
    }
    for pod in core.list_pod_for_all_namespaces().items:
        if pod.spec.node_name in free and pod.status.phase not in {"Succeeded", "Failed"}:
            free[pod.spec.node_name] -= sum(_gpus(container) for container in pod.spec.containers)
    return sum(free.values())


def _gpus(container: Any) -> int:
    return int(((container.resources and container.resources.requests) or {}).get(RESOURCE, 0))
