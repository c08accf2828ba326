"""KubeSpawner's own watch, as far as GPUs go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.hub.own_servers import pods_with
from tests.unit.kube.watch_server import pod

GPU = frozenset({"nvidia.com/gpu"})


def spawner(*pods: dict[str, Any], loaded: asyncio.Future[None] | None = None) -> Any:
    if loaded is None:
        loaded = asyncio.get_running_loop().create_future()
        loaded.set_result(None)
    found = {each["metadata"]["name"]: each for each in pods}
    return SimpleNamespace(pod_reflector=SimpleNamespace(first_load_future=loaded, pods=found))


async def test_pods_with_gpus_are_read():
    without = pod("without")
    without["spec"]["containers"] = [{"name": "c"}, {"name": "d", "resources": {"limits": {"cpu": "1"}}}]
    found = pods_with(GPU, spawner(pod("a", gpus=2), without, pod("done", phase="Succeeded")))
    assert found is not None
    assert [(each.name, each.node, each.requests["nvidia.com/gpu"]) for each in found] == [("a", "n1", 2)]


async def test_gpus_that_a_server_has_by_a_claim_are_its_own():
    bound = pod("a", gpus=2)
    mappings = [{"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "r"}]
    bound["status"]["extendedResourceClaimStatus"] = {"requestMappings": mappings, "resourceClaimName": "a-devices"}
    (found,) = pods_with(GPU, spawner(bound)) or ()
    assert found.requests["nvidia.com/gpu"] == 2


async def test_a_watch_that_has_not_begun_tells_nothing():
    assert pods_with(GPU, SimpleNamespace(pod_reflector=None)) is None
    assert pods_with(GPU, spawner(pod("a"), loaded=asyncio.get_running_loop().create_future())) is None


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_watch_that_failed_tells_nothing(is_cancelled: bool):
    loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if is_cancelled:
        loaded.cancel()
    else:
        loaded.set_exception(OSError("refused"))
    assert pods_with(GPU, spawner(pod("a"), loaded=loaded)) is None
