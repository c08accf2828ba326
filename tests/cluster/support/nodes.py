"""Looks at nodes, and takes some out of service for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kubernetes.client import ApiClient, CoreV1Api, V1Node

from tests.cluster.support.waiting import wait_for

SIMULATED = "gpuspawner.jupyter.org/simulated"
GPU_VENDORS = ("nvidia.com/", "amd.com/")


def gpu_resources(node: V1Node) -> dict[str, int]:
    """Return how many GPUs of which resource a node offers."""
    amounts = node.status.allocatable or {}
    return {name: int(amount) for name, amount in amounts.items() if name.startswith(GPU_VENDORS) and int(amount)}


def read(api: ApiClient, name: str) -> V1Node:
    return CoreV1Api(api).read_node(name)


@contextmanager
def cordoned(api: ApiClient, names: Iterable[str]) -> Iterator[None]:
    """Let nothing new onto these nodes inside the block."""
    names = list(names)
    core = CoreV1Api(api)
    try:
        for name in names:
            core.patch_node(name, {"spec": {"unschedulable": True}})
        yield
    finally:
        for name in names:
            core.patch_node(name, {"spec": {"unschedulable": None}})
        # The control plane takes its taint back a moment later.
        wait_for(lambda: not any(_is_tainted(read(api, name)) for name in names), "nodes back in service")


@contextmanager
def labelled(api: ApiClient, names: Iterable[str], key: str, value: str | None) -> Iterator[None]:
    """Give one label of these nodes another value inside the block, or none."""
    core = CoreV1Api(api)
    known = {name: read(api, name).metadata.labels.get(key) for name in names}
    try:
        for name in known:
            core.patch_node(name, {"metadata": {"labels": {key: value}}})
        yield
    finally:
        for name, before in known.items():
            core.patch_node(name, {"metadata": {"labels": {key: before}}})


def simulated(api: ApiClient) -> list[V1Node]:
    return list(CoreV1Api(api).list_node(label_selector=f"{SIMULATED}=true").items)


def _is_tainted(node: V1Node) -> bool:
    return any(taint.key == "node.kubernetes.io/unschedulable" for taint in node.spec.taints or [])
