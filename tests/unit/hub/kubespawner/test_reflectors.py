"""Dead reflectors are forgotten, and refused starts are not counted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes_asyncio.client.rest import ApiException
from tornado import web

from gpuspawner.hub.kubespawner.hub_pods import has_read_pods
from gpuspawner.hub.kubespawner.reflectors import (
    give_up_dead_reflectors,
    is_given_up,
    unregister_failed_reflector,
    wait_for_first_list,
)
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.followed import cut_off, pods_path
from tests.unit.kube.watch_server import WatchServer, eventually


def reflector(
    *, loaded: bool = True, cancelled: bool = False, error: Exception | None = None, watch: Any = None
) -> Any:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if error is not None:
        future.set_exception(error)
        _ = future.exception()
    elif loaded:
        future.set_result(None)
    elif cancelled:
        future.cancel()
    return SimpleNamespace(first_load_future=future, watch_task=watch)


async def test_reflectors_that_load_or_watch_are_not_given_up():
    watching = asyncio.create_task(asyncio.Event().wait())
    ended = asyncio.create_task(asyncio.sleep(0))
    await ended
    reflectors = {
        "loading": reflector(loaded=False),
        "watching": reflector(watch=watching),
        "failed": reflector(error=ValueError("x")),
        "gave up": reflector(watch=ended),
        "cancelled": reflector(loaded=False, cancelled=True),
    }
    give_up_dead_reflectors(reflectors)
    assert [name for name, each in reflectors.items() if not is_given_up(each)] == ["loading", "watching"]
    assert not is_given_up(None)
    watching.cancel()


async def test_no_start_waits_for_a_first_list_that_was_cancelled():
    reflectors: dict[str, Any] = {}
    made = reflector(loaded=False)
    with suppress(asyncio.CancelledError), unregister_failed_reflector(reflectors, "pods"):
        reflectors["pods"] = made
        raise asyncio.CancelledError
    assert reflectors == {}
    with pytest.raises(TimeoutError, match="Could not"):
        await made.first_load_future


async def test_looking_at_a_server_does_with_what_is_known_while_nothing_can_be_read(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    await spawner._start_watching_pods()
    await cut_off(spawner.pod_reflector.watch_task)
    server.status = {f"/api/v1/namespaces/{spawner.namespace}/pods": 500}
    assert await spawner.poll() == 1
    known = len(server.requests)
    assert (await spawner.poll(), len(server.requests)) == (1, known)


async def runs_and_is_watched(spawner: GPUSpawner, server: WatchServer) -> str:
    """Let a server run that KubeSpawner watches; return the path of the pods."""
    path, container = pods_path(spawner), {"name": "notebook", "ready": True, "state": {"running": {}}}
    metadata = {"name": spawner.pod_name, "namespace": spawner.namespace}
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [container]}
    server.put(path, {"metadata": metadata, "spec": {"containers": []}, "status": status})
    await spawner._start_watching_pods()
    return path


async def test_servers_run_on_where_a_watch_cannot_be_replaced(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    path = await runs_and_is_watched(spawner, server)
    watching = spawner.pod_reflector
    server.status = {path: 500}
    with pytest.raises(ApiException, match="500"):
        await spawner._start_watching_pods(replace=True)  # as after a start that took too long
    assert (await spawner.poll(), spawner.pod_reflector is watching) == (None, True)
    assert not watching.watch_task.done()


async def test_servers_run_on_while_a_watch_is_replaced(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    path = await runs_and_is_watched(spawner, server)
    watching, known = spawner.pod_reflector, dict(spawner.pod_reflector.pods)
    server.held = {path}
    replacing = asyncio.ensure_future(spawner._start_watching_pods(replace=True))
    await eventually(lambda: spawner.pod_reflector is not watching)
    assert spawner.pod_reflector.pods == known
    server.held = set()
    await cut_off(replacing)
    assert spawner.pod_reflector is watching


async def test_a_watch_that_is_replaced_ends(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    await runs_and_is_watched(spawner, server)
    watching = spawner.pod_reflector.watch_task
    made = await spawner._start_watching_pods(replace=True)
    assert (watching.done(), made.watch_task.done(), spawner.pod_reflector is made) == (True, False, True)


async def test_what_a_dead_watch_knew_is_not_certain_where_it_cannot_be_replaced(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    path = await runs_and_is_watched(spawner, server)
    await cut_off(spawner.pod_reflector.watch_task)
    server.status = {path: 500}
    with pytest.raises(ApiException, match="500"):
        await spawner._start_watching_pods(replace=True)
    assert (await spawner.poll(), has_read_pods(spawner)) == (None, False)


async def test_a_start_that_gives_up_waiting_leaves_the_list_to_the_others():
    loading = reflector(loaded=False)
    reflectors = {"pods": loading}
    with suppress(asyncio.CancelledError), unregister_failed_reflector(reflectors, "pods"):
        raise asyncio.CancelledError
    assert (reflectors, loading.first_load_future.done()) == ({"pods": loading}, False)


async def test_a_start_that_gives_up_waiting_for_a_first_list_does_not_end_it_for_others():
    loading = reflector(loaded=False)
    fickle, patient = (asyncio.create_task(wait_for_first_list({"pods": loading}, "pods")) for _ in range(2))
    await asyncio.sleep(0)
    fickle.cancel()
    with suppress(asyncio.CancelledError):
        await fickle
    loading.first_load_future.set_result(None)
    assert await patient is None


async def test_a_start_that_waits_for_a_first_list_gets_the_lists_error():
    loading = reflector(loaded=False)
    waiting = asyncio.create_task(wait_for_first_list({"pods": loading}, "pods"))
    await asyncio.sleep(0)
    loading.first_load_future.set_exception(ValueError("no list"))
    with pytest.raises(ValueError, match="no list"):
        await waiting


async def test_servers_start_where_the_start_that_read_the_first_list_is_cancelled(
    make_spawner: MakeSpawner, server: WatchServer
):
    fickle, patient = make_spawner(), make_spawner()
    path = f"/api/v1/namespaces/{fickle.namespace}/pods"
    server.held = {path}
    reading = asyncio.ensure_future(fickle._start_watching_pods())
    async with asyncio.timeout(5):
        while not type(fickle).reflectors:  # noqa: ASYNC110 - nothing tells when it begins
            await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(patient._start_watching_pods())
        await asyncio.sleep(0)
        server.held = set()
        reading.cancel()
        assert (await waiting).first_load_future.exception() is None


async def test_the_hub_can_clean_up_when_one_of_two_watches_was_cancelled(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    folder = f"/api/v1/namespaces/{spawner.namespace}"
    server.held, server.status = {f"{folder}/pods"}, {f"{folder}/events": 401}
    with pytest.raises(web.HTTPError, match="credentials"):
        await spawner.start()
    server.held, server.status = set(), {}
    async with asyncio.timeout(5):
        assert await spawner.poll() == 1


async def test_the_error_of_a_first_list_is_not_logged_again_when_the_hub_ends(
    make_spawner: MakeSpawner, server: WatchServer
):
    spawner = make_spawner()
    server.status = {f"/api/v1/namespaces/{spawner.namespace}/pods": 401}
    with pytest.raises(ApiException, match="401"):
        await spawner._start_watching_pods()
    (failed,) = type(spawner).reflectors.values()
    # With this flag, asyncio logs the exception, and the log keeps it, and so the future, from being collected.
    assert not failed.first_load_future._log_traceback
