"""A server starts where the hub may not read events, and both its user and the admin read so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.hub.errors import ClusterFailure
from gpuspawner.hub.kubespawner.reflectors import EVENTS_DENIED_S, EventsAccess, give_up_dead_reflectors
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.clocks import Clock
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.followed import begin_with, cut_off, pod_that_waits
from tests.unit.hub.starts import GPU_OPTIONS
from tests.unit.kube.watch_server import PODS, WatchServer, eventually

UNTOLD = "The hub may not read the cluster's events, so a reason may be missing here."
EVERYWHERE = {"enable_user_namespaces": True}
EVENTS = "/api/v1/events"


@pytest.fixture
def clock(clock: Clock, make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the rights to events go by."""
    monkeypatch.setattr(GPUSpawner, "_events_access", EventsAccess(clock=clock))
    return clock


def events_path(spawner: GPUSpawner) -> str:
    return "/api/v1/events" if spawner.enable_user_namespaces else f"/api/v1/namespaces/{spawner.namespace}/events"


Told = Callable[[], list[str]]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return lambda: [each.message for each in caplog.records if each.message.startswith("The hub may")]


async def begun(spawner: GPUSpawner, server: WatchServer) -> asyncio.Future[Any]:
    """Start a server whose pod waits for a node, and return once it is sent."""
    return await begin_with(server, spawner, await pod_that_waits(spawner, GPU_OPTIONS))


@pytest.mark.parametrize("kubespawner", [{}, EVERYWHERE])
async def test_a_server_starts_without_events_and_its_user_reads_so(
    make_spawner: MakeSpawner, server: WatchServer, kubespawner: dict[str, Any]
):
    spawner = make_spawner(kubespawner=kubespawner)
    server.status[events_path(spawner)] = 403
    start = await begun(spawner, server)
    await eventually(lambda: (last := spawner.start_state.feed.last) and UNTOLD in last.sentence)
    assert not start.done()
    assert spawner.events == []
    await cut_off(start)


async def test_a_user_reads_nothing_of_events_that_can_be_read(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner()
    start = await begun(spawner, server)
    await eventually(lambda: (last := spawner.start_state.feed.last) and last.stage == "waiting")
    assert not [each for each in spawner.start_state.feed.reports if UNTOLD in each.sentence]
    await cut_off(start)


async def test_the_log_names_once_the_missing_right_and_the_file_that_grants_it(
    make_spawner: MakeSpawner, server: WatchServer, clock: Clock, told: Told
):
    spawner = make_spawner()
    server.status[events_path(spawner)] = 403
    path = events_path(spawner)
    for _ in range(3):
        assert await spawner._start_watching_events() is None
    assert len(server.asked(path, watch=False)) == 1
    clock.now += EVENTS_DENIED_S + 0.1
    give_up_dead_reflectors(type(spawner).reflectors)  # as each start does
    assert await spawner._start_watching_events() is None
    assert len(server.asked(path, watch=False)) == 2
    (warning,) = told()
    assert warning.startswith(f"The hub may not list events in the namespace {spawner.namespace}.")
    assert "the role gpuspawner-hub in helm-values/rbac.yaml" in warning


async def test_the_log_names_the_role_for_users_with_namespaces_of_their_own(
    make_spawner: MakeSpawner, server: WatchServer, clock: Clock, told: Told
):
    spawner = make_spawner(kubespawner=EVERYWHERE)
    server.status[events_path(spawner)] = 403
    assert await spawner._start_watching_events() is None
    (warning,) = told()
    assert warning.startswith("The hub may not list events in all namespaces.")
    assert "the role gpuspawner-user-namespaces in docs/security.md" in warning


async def test_the_hub_goes_on_where_a_watch_of_events_gives_up(
    make_spawner: MakeSpawner, server: WatchServer, clock: Clock, told: Told
):
    spawner = make_spawner(kubespawner=EVERYWHERE)
    reflector = await spawner._start_watching_events()
    assert reflector.on_failure is None
    await cut_off(reflector.watch_task)
    server.status[events_path(spawner)] = 403
    give_up_dead_reflectors(type(spawner).reflectors)  # as each start does
    assert await spawner._start_watching_events() is None
    assert len(told()) == 1


@pytest.mark.parametrize(("path", "status"), [(PODS, 403), (PODS, 500), (EVENTS, 500)])
async def test_where_each_user_has_a_namespace_a_watch_that_fails_ends_the_start_and_not_the_hub(
    make_spawner: MakeSpawner, server: WatchServer, path: str, status: int
):
    spawner = make_spawner(kubespawner=EVERYWHERE)
    spawner.user_options = GPU_OPTIONS
    await spawner.make_offer()
    server.status[path] = status
    with pytest.raises(ClusterFailure, match=str(status)):
        await spawner.start()
    server.status = {}
    give_up_dead_reflectors(type(spawner).reflectors)  # as each start does
    assert (await spawner._start_watching_pods()).on_failure is None


async def test_a_right_that_is_given_later_is_used_within_a_minute(
    make_spawner: MakeSpawner, server: WatchServer, clock: Clock, told: Told
):
    spawner = make_spawner()
    server.status[events_path(spawner)] = 403
    await spawner._start_watching_events()
    server.status = {}
    clock.now += EVENTS_DENIED_S + 0.1
    give_up_dead_reflectors(type(spawner).reflectors)  # as each start does
    assert await spawner._start_watching_events() is spawner.event_reflector
    assert not spawner.start_state.feed.lacks_events
    assert told()[1:] == ["The hub may read events again."]


@pytest.mark.parametrize(("kubespawner", "error"), [({}, ApiException), (EVERYWHERE, SystemExit)])
async def test_other_errors_than_refusals_are_left_to_kubespawner(
    make_spawner: MakeSpawner, server: WatchServer, kubespawner: dict[str, Any], error: type[BaseException]
):
    spawner = make_spawner(kubespawner=kubespawner)
    server.status[events_path(spawner)] = 500
    with pytest.raises(error):
        await spawner._start_watching_events()
