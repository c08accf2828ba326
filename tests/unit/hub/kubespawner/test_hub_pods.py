"""KubeSpawner's own watch, as far as GPUs go."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.hub.kubespawner.hub_pods import ensure_pods_watched, has_read_pods, list_pods_with, list_watched_pods
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.kube.watch_server import WatchServer, pod

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
    found = list_pods_with(GPU, spawner(pod("a", gpus=2), without, pod("done", phase="Succeeded")))
    assert found is not None
    assert [(each.name, each.node, each.requests["nvidia.com/gpu"]) for each in found] == [("a", "n1", 2)]


async def test_gpus_that_a_server_has_by_a_claim_are_its_own():
    bound = pod("a", gpus=2)
    mappings = [{"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "r"}]
    bound["status"]["extendedResourceClaimStatus"] = {"requestMappings": mappings, "resourceClaimName": "a-devices"}
    (found,) = list_pods_with(GPU, spawner(bound)) or ()
    assert found.requests["nvidia.com/gpu"] == 2


async def test_a_watch_that_has_not_begun_tells_nothing():
    assert list_pods_with(GPU, SimpleNamespace(pod_reflector=None)) is None
    assert list_pods_with(GPU, spawner(pod("a"), loaded=asyncio.get_running_loop().create_future())) is None


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_watch_that_failed_tells_nothing(is_cancelled: bool):
    loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if is_cancelled:
        loaded.cancel()
    else:
        loaded.set_exception(OSError("refused"))
    assert list_pods_with(GPU, spawner(pod("a"), loaded=loaded)) is None


class _Kind(SimpleNamespace):
    """A spawner of a class that keeps its watches."""

    reflectors: dict[Any, Any]

    @property
    def pod_reflector(self) -> Any:
        return self.reflectors.get(("pods", "hub"))


def kind(begin: Any) -> Any:
    made: Any = type("Kind", (_Kind,), {"reflectors": {}})(_start_watching_pods=begin)
    return made


def reflector(*pods: dict[str, Any], is_over: bool = False) -> Any:
    found = spawner(*pods).pod_reflector
    found.watch_task = SimpleNamespace(done=lambda: is_over)
    return found


async def test_a_watch_that_has_not_begun_is_begun_and_waited_for():
    async def begin() -> None:
        await asyncio.sleep(0)
        found.reflectors["pods", "hub"] = reflector(pod("a"))

    found = kind(begin)
    await ensure_pods_watched(found, timeout_s=10)
    assert has_read_pods(found)
    found.reflectors["events", "hub"] = reflector(pod("b"))
    assert [list(pods) for pods, _ in list_watched_pods(found)] == [["a"]]


async def test_a_watch_that_gave_up_is_begun_anew():
    async def begin() -> None:
        found.reflectors["pods", "hub"] = reflector(pod("new"))

    found = kind(begin)
    found.reflectors["pods", "hub"] = reflector(pod("old"), is_over=True)
    await ensure_pods_watched(found, timeout_s=10)
    assert [list(pods) for pods, _ in list_watched_pods(found)] == [["new"]]


async def test_a_watch_that_goes_on_is_left_alone():
    found = kind(None)
    found.reflectors["pods", "hub"] = reflector(pod("a"))
    await ensure_pods_watched(found, timeout_s=10)
    assert has_read_pods(found)


async def test_a_watch_that_cannot_begin_is_no_error():
    async def begin() -> None:
        raise OSError("refused")

    found = kind(begin)
    await ensure_pods_watched(found, timeout_s=10)
    assert not has_read_pods(found)


async def test_pods_of_other_hubs_are_recognized_where_users_have_namespaces_of_their_own(make_spawner: MakeSpawner):
    own = make_spawner(kubespawner={"enable_user_namespaces": True})
    pods = {namespace: pod("jupyter-ada", namespace=namespace) for namespace in (own.namespace, f"x-{own.namespace}")}
    for each in pods.values():
        each["metadata"]["annotations"] = {"hub.jupyter.org/username": "ada"}
    type(own).reflectors["pods", None] = SimpleNamespace(pods=pods)
    try:
        ((found, is_own),) = list_watched_pods(own)
    finally:
        type(own).reflectors.clear()
    assert [(name, is_own(each)) for name, each in found.items()] == [
        (own.namespace, True),
        (f"x-{own.namespace}", False),
    ]


async def test_all_pods_of_the_hubs_one_namespace_are_its_own():
    found = kind(None)
    found.reflectors["pods", "hub"] = reflector(pod("a"))
    ((_, is_own),) = list_watched_pods(found)
    assert is_own(pod("a"))


async def test_no_form_ends_the_hub_where_all_namespaces_cannot_be_watched(
    make_spawner: MakeSpawner, server: WatchServer
):
    own = make_spawner(kubespawner={"enable_user_namespaces": True})
    server.status["/api/v1/pods"] = 403
    await ensure_pods_watched(own, timeout_s=10)
    assert not has_read_pods(own)
    server.status = {}
    await ensure_pods_watched(own, timeout_s=10)
    assert has_read_pods(own)


async def test_a_slow_first_reading_goes_on_when_no_request_waits_any_more():
    async def begin() -> None:
        await answered.wait()
        found.reflectors["pods", "hub"] = reflector(pod("a"))
        done.set()

    answered, done = asyncio.Event(), asyncio.Event()
    found = kind(begin)
    await ensure_pods_watched(found, timeout_s=0.01)
    assert not has_read_pods(found)
    answered.set()
    await done.wait()
    assert has_read_pods(found)


async def test_a_caller_without_time_keeps_no_other_from_waiting():
    async def begin() -> None:
        found.reflectors["pods", "hub"] = reading
        await answered.wait()
        reading.first_load_future = reflector().first_load_future

    answered, reading, found = asyncio.Event(), reflector(), kind(begin)
    reading.first_load_future = asyncio.get_running_loop().create_future()
    await ensure_pods_watched(found, timeout_s=0)
    waiting = asyncio.create_task(ensure_pods_watched(found, timeout_s=10, waits_again=False))
    await asyncio.sleep(0)
    answered.set()
    await waiting
    assert has_read_pods(found)


async def test_a_list_that_has_had_its_time_is_waited_for_only_on_request():
    async def begin() -> None:
        await answered.wait()

    answered, found = asyncio.Event(), kind(begin)
    found.reflectors["pods", "hub"] = slow = reflector()
    slow.first_load_future, slow.begun_at = asyncio.get_running_loop().create_future(), time.monotonic() - 60
    await asyncio.wait_for(ensure_pods_watched(found, timeout_s=60, waits_again=False), 10)
    waiting = asyncio.create_task(ensure_pods_watched(found, timeout_s=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    answered.set()
    await waiting
