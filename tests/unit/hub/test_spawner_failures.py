"""JupyterHub's record of a failed start: its count, its error, its options. JupyterHub's own handlers start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.app import JupyterHub
from jupyterhub.user import User
from jupyterhub.utils import format_exception
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from tornado import web

from gpuspawner.hub.errors import FailureCount
from gpuspawner.hub.request.context import CHOICE_HEADER
from gpuspawner.hub.start import endings
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.hub_requests import RealHub, bug
from tests.unit.kube.watch_server import HANG, NODES, WatchServer, break_off, refusal

QUICK = {"k8s_api_request_timeout": 1, "k8s_api_request_retry_timeout": 1, "start_timeout": 10}
CHOICE = {"image": "minimal", "cpu": 2}
ADMITTED = {
    "v": 1,
    "image": "minimal",
    "cpu": 2,
    "memory": "4G",
    "gpu": None,
    "gpu_count": 0,
    "profile": "Minimal · 2 CPUs · 4 GiB",
}
MakeHub = Callable[..., RealHub]


@pytest.fixture
def make_hub(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch) -> MakeHub:
    """Make hubs whose spawners talk to the server of ``make_spawner``."""

    def make(*, settings: Any = SETTINGS, **kubespawner: Any) -> RealHub:
        hub = RealHub({"GPUSpawner": settings, "KubeSpawner": {**QUICK, **kubespawner}})
        monkeypatch.setattr(JupyterHub, "_instance", hub.app)
        return hub

    return make


PODS = ("POST", "/api/v1/namespaces/default/pods")
LIMIT_RANGE = 'pods "jupyter-ada" is forbidden: maximum cpu usage per Container is 1, but limit is 2'
NO_RUNTIME = 'pods "jupyter-ada" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
NO_WEBHOOK = (
    'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post'
    ' "https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": no endpoints available'
)
DENIED = 'admission webhook "mpod.kb.io" denied the request: database is locked'


# -- the count ---------------------------------------------------------------------------------------------------------


def refuse(_: Any) -> None:
    raise web.HTTPError(403, "Not today.")


def fail_to_store(session: Session, *_: object) -> None:
    """Fail as a database that is not there, once JupyterHub stores what a start asks for."""
    if any(isinstance(each, orm.Spawner) and each.user_options for each in session.dirty):
        raise OperationalError("UPDATE spawners", {}, OSError("no space left"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(refusal(403, LIMIT_RANGE), LIMIT_RANGE, id="LimitRange"),
        pytest.param(refusal(403, "exceeded quota: gpus"), "exceeded quota: gpus", id="quota"),
        pytest.param(refusal(403, NO_RUNTIME), 'RuntimeClass "nvidia" not found', id="RuntimeClass"),
        pytest.param(refusal(422), "(422): Unprocessable Entity", id="invalid"),
        pytest.param(refusal(401), "refused the hub's credentials", id="credentials"),
        pytest.param(refusal(429), "is overloaded", id="overloaded"),
        pytest.param(refusal(500, NO_WEBHOOK), "mpod.kb.io (kueue-system/kueue-webhook-service)", id="no webhook"),
        pytest.param(refusal(500, DENIED), DENIED, id="webhook fails"),
        pytest.param(refusal(503), "(503): Service Unavailable", id="restarting"),
        pytest.param(HANG, "cannot be reached", id="no answer"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
async def test_nothing_that_the_api_server_refuses_counts_towards_the_limit_that_stops_the_hub(
    make_hub: MakeHub, server: WatchServer, answer: Any, expected: str, dry_run: bool
):
    hub = make_hub(settings={**SETTINGS, "dry_run": dry_run})
    server.answers = {PODS: answer}
    user = hub.add_user("ada")
    found = []
    for _ in range(2):
        error = await hub.start(user, CHOICE)
        assert error is not None
        found.append((expected in format_exception(error)[0], hub.failures))
    assert found == [(True, 0)] * 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_start_that_claims_to_be_an_open_form_is_judged_as_any_other(make_hub: MakeHub, method: str):
    hub = make_hub()
    user = hub.add_user("ada")
    found = []
    for _ in range(3):
        error = await hub.start(user, {"gpu": "h900"}, headers={CHOICE_HEADER: "{}"}, method=method)
        assert error is not None
        found.append(("h900" in format_exception(error)[0], hub.failures, hub.stored(user)))
    assert found == [(True, 0, {})] * 3


def nest(levels: int) -> object:
    """Return lists in lists; the hub's database takes about 950 of them."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"cpu": nest(2000)}, id="a field is nested too deep to be stored"),
        pytest.param({"token": nest(2000)}, id="a site's own option is nested too deep to be stored"),
        pytest.param({"token": nest(50)}, id="nested deeper than any option of a site"),
        pytest.param({"token": "x" * 70_000}, id="a long text"),
        pytest.param({"token": "ü" * 20_000}, id="a text that is long as JSON"),
        pytest.param({"token": [1] * 70_000}, id="many values"),
        pytest.param({f"x{number}": 1 for number in range(70_000)}, id="many options"),
    ],
)
async def test_too_large_options_are_refused_and_not_stored(make_hub: MakeHub, options: dict[str, Any]):
    hub = make_hub(settings={**SETTINGS, "extra_options": ["token"]})
    user = hub.add_user("ada")
    found = []
    for _ in range(2):
        error = await hub.start(user, options)
        status = error.status_code if isinstance(error, web.HTTPError) else error
        found.append((status, hub.failures, hub.stored(user), user.spawners[""].ready))
    assert found == [(400, 0, {}, False)] * 2


@pytest.mark.parametrize(
    ("options", "status", "kubespawner"),
    [
        pytest.param({"gpu": "h900"}, {}, {}, id="no such GPU"),
        pytest.param({"gpu": "h900"}, {NODES: 403}, {}, id="nodes not readable"),
        pytest.param(CHOICE, {}, {"pre_spawn_hook": refuse}, id="a hook refuses"),
        pytest.param(CHOICE, {PODS[1]: 403}, {}, id="pods not readable"),
    ],
)
async def test_nothing_that_the_hub_refuses_counts_towards_the_limit_that_stops_it(
    make_hub: MakeHub, server: WatchServer, options: Any, status: dict[str, int], kubespawner: Any
):
    hub = make_hub(**kubespawner)
    server.status = status
    user = hub.add_user("ada")
    found = []
    for _ in range(2):
        error = await hub.start(user, options)
        found.append((isinstance(error, web.HTTPError), hub.failures))
    assert found == [(True, 0)] * 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(HANG, ["jupyter-ada"], id="the answer is lost"),
        pytest.param(break_off, ["jupyter-ada"], id="the connection is lost"),
        pytest.param(refusal(504), ["jupyter-ada"], id="the API server may have stored it"),
        pytest.param(refusal(403, LIMIT_RANGE), [], id="refused"),
        pytest.param(None, ["jupyter-ada"], id="the watch is mute"),
    ],
)
async def test_a_pod_that_may_have_been_created_is_deleted_though_the_hub_never_saw_it(
    make_hub: MakeHub, server: WatchServer, answer: Any, expected: list[str]
):
    hub = make_hub(settings={**SETTINGS, "dry_run": False}, start_timeout=2)
    if answer is not None:
        server.answers[PODS] = answer
    await hub.start(hub.add_user("ada"), CHOICE)
    assert expected == [each.path.rpartition("/")[2] for each in server.requests if each.method == "DELETE"]


async def test_a_bug_counts_once_for_each_user_until_a_start_succeeds(make_hub: MakeHub):
    hub = make_hub(pre_spawn_hook=bug)
    ada, bob = hub.add_user("ada"), hub.add_user("bob")
    found = []
    for user in (ada, ada, bob, ada, bob):
        await hub.start(user, CHOICE)
        found.append(hub.failures)
    assert found == [1, 1, 2, 2, 2]


async def test_a_database_that_does_not_store_options_counts_once(make_hub: MakeHub):
    hub = make_hub()
    ada = hub.add_user("ada")
    event.listen(hub.settings["db"], "before_flush", fail_to_store)
    found = []
    for _ in range(3):
        error = await hub.start(ada, CHOICE)
        found.append((type(error), hub.failures))
    assert found == [(OperationalError, 1)] * 3


async def test_after_a_start_that_succeeded_a_users_failure_counts_again():
    count, user = FailureCount(), SimpleNamespace(name="ada", settings={"failure_count": 0})
    loop = asyncio.get_running_loop()
    found = []
    for succeeds in (False, False, True, False):
        start = loop.create_future()
        count.follow(start, user)
        if succeeds:
            start.set_result(None)
            user.settings["failure_count"] = 0
        else:
            count.settle(start, KeyError(), user=user)
            user.settings["failure_count"] += 1
            start.set_exception(KeyError())
        await asyncio.gather(start, return_exceptions=True)
        found.append(user.settings["failure_count"])
    assert found == [1, 1, 0, 1]


# -- the options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "status"),
    [
        pytest.param({"gpu": "h900"}, {}, id="refused"),
        pytest.param({"gpu": "h900"}, {NODES: 403}, id="not judged"),
        pytest.param({"image": "minimal", "cpu": 7e300}, {}, id="out of range"),
    ],
)
async def test_options_that_were_refused_are_not_stored(
    make_hub: MakeHub, server: WatchServer, options: Any, status: dict[str, int]
):
    hub = make_hub()
    user = hub.add_user("ada")
    server.answers = {PODS: refusal(403)}
    await hub.start(user, CHOICE)
    found = [hub.stored(user)]
    server.answers, server.status = {}, status
    await hub.start(user, options)
    found += [hub.stored(user), user.spawners[""].user_options]
    assert found == [ADMITTED] * 3


@pytest.mark.parametrize("door", ["run_options_from_form", "options_from_query"])
async def test_a_form_or_link_that_is_refused_stores_nothing(make_hub: MakeHub, door: str):
    hub = make_hub()
    user = hub.add_user("ada")
    spawner = hub.open_form(user)
    with pytest.raises(web.HTTPError, match="gpu: "):
        await getattr(spawner, door)({"gpu": ["h900"]})
    assert hub.stored(user) is None


async def test_options_that_a_hook_keeps_from_being_judged_are_not_stored(make_hub: MakeHub):
    hub = make_hub(auth_state_hook=lambda spawner, _: refuse(spawner))
    user = hub.add_user("ada")
    await hub.start(user, {"gpu": "h900"})
    assert hub.stored(user) == {}


async def test_a_stop_leaves_options_alone_that_an_admin_has_changed_in_the_database(
    make_spawner: MakeSpawner, server: WatchServer
):
    old, new = ({"image": "pytorch", "cpu": cpu, "memory": "1G"} for cpu in (1, 2))
    row = SimpleNamespace(user_options=old, state={}, server=None, name="")
    spawner = make_spawner(orm_spawner=row, user_options=old)  # as a restarted hub does
    row.user_options = new
    spawner._stop_pending = True
    spawner.clear_state()
    assert (row.user_options, spawner.user_options) == (new, new)


async def test_a_canceled_start_restores_the_options_in_the_database(make_spawner: MakeSpawner, server: WatchServer):
    old, new = ({"image": "pytorch", "cpu": cpu, "memory": "1G"} for cpu in (1, 2))
    row = SimpleNamespace(user_options=old, state={}, server=None, name="")
    spawner = make_spawner(orm_spawner=row, user_options=old)
    spawner.user_options = row.user_options = new
    spawner.clear_state()
    spawner._stop_pending = True
    spawner.clear_state()
    assert (row.user_options, spawner.user_options) == (old, old)


# -- the error ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([{CHOICE_HEADER: "{}"}], True, id="an open form refreshes itself once"),
        pytest.param([{CHOICE_HEADER: "{}"}, {CHOICE_HEADER: "{}"}], True, id="an open form refreshes itself twice"),
        pytest.param([{}], False, id="a form is opened"),
        pytest.param([{}, {CHOICE_HEADER: "{}"}], False, id="a form is opened and refreshes itself"),
    ],
)
async def test_a_failed_start_is_forgotten_when_a_form_is_opened_but_not_when_it_refreshes_itself(
    make_hub: MakeHub, headers: list[dict[str, str]], expected: bool
):
    hub = make_hub()
    user = hub.add_user("ada")
    error = await hub.start(user, {"gpu": "h900"})
    for each in headers:
        hub.open_form(user, each)
    assert (user.spawners[""]._failed is error) == expected


async def test_a_new_start_begins_without_the_error_that_a_form_kept(make_hub: MakeHub, server: WatchServer):
    hub = make_hub()
    user = hub.add_user("ada")
    await hub.start(user, {"gpu": "h900"})
    hub.open_form(user, {CHOICE_HEADER: "{}"})
    server.answers = {PODS: refusal(403)}
    error = await hub.start(user, CHOICE)
    assert (user.spawners[""]._failed is error, "403" in format_exception(error)[0]) == (True, True)


# -- the cancellation --------------------------------------------------------------------------------------------------


async def cancel_start(hub: RealHub, user: User, server: WatchServer) -> None:
    """Cancel a start as a request to delete the server does, and return in the event loop's turn in which it ends.

    JupyterHub's own callback clears the marks of the start in the next turn.
    """
    server.answers = {PODS: HANG}
    starting = asyncio.create_task(hub.start(user, CHOICE))
    while PODS not in [(each.method, each.path) for each in server.requests]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert user.spawners[""].pending == "spawn"
    spawn = user.spawners[""]._spawn_future
    spawn.cancel()
    while not spawn.done():  # noqa: ASYNC110  # an event would be set a turn later
        await asyncio.sleep(0)
    assert not starting.done()
    assert user.spawners[""]._spawn_pending


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(lambda hub, user: hub.make_handler(method="DELETE").stop_single_user(user), id="by a request"),
        pytest.param(lambda _, user: user.stop(""), id="by the hub"),
    ],
)
async def test_a_start_is_stopped_in_the_very_turn_of_the_event_loop_in_which_its_cancellation_ends_it(
    make_hub: MakeHub, server: WatchServer, stop: Callable[[RealHub, User], Awaitable[None]]
):
    hub = make_hub()
    user = hub.add_user("ada")
    await cancel_start(hub, user, server)
    await stop(hub, user)
    await asyncio.sleep(0)
    assert ("" in user.spawners, user.orm_user.orm_spawners[""].server) == (False, None)


async def test_a_cancelled_start_is_active_and_has_not_failed_in_the_turn_of_the_event_loop_in_which_it_ends(
    make_hub: MakeHub, server: WatchServer
):
    hub = make_hub()
    user = hub.add_user("ada")
    await cancel_start(hub, user, server)
    spawner = user.spawners[""]
    assert (user.get_spawner("", replace_failed=True) is spawner, spawner.active) == (True, True)


async def test_a_cancelled_start_is_not_ready_in_the_second_before_jupyterhub_stops_it(
    make_hub: MakeHub, server: WatchServer
):
    hub = make_hub()
    user = hub.add_user("ada")
    await cancel_start(hub, user, server)
    spawner = user.spawners[""]
    while spawner._spawn_pending:  # noqa: ASYNC110  # JupyterHub's own callback ends it in the next turn
        await asyncio.sleep(0)
    assert (spawner.server is None, spawner.pending, spawner.ready) == (False, None, False)


# -- the reason, after a restart of the hub ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(CHOICE, "Kubernetes refused to create the server (403): exceeded quota: gpus", id="admitted"),
        pytest.param({**CHOICE, "cpu": 999}, "cpu: CPU must be 1 to 8 CPUs, not 999 CPUs.", id="refused"),
    ],
)
async def test_a_hub_that_was_restarted_still_tells_why_a_start_failed(
    make_hub: MakeHub, server: WatchServer, monkeypatch: pytest.MonkeyPatch, options: Any, expected: str
):
    hub = make_hub()
    server.answers = {PODS: refusal(403, "exceeded quota: gpus")}
    user = hub.add_user("ada")
    await hub.start(user, options)
    announce = endings.add_announcements({})["announcement"]
    before = announce(user)
    monkeypatch.setattr(endings, "_PROCESS", "another")
    after = announce(user)
    assert (before, after) == (None, expected)
