"""A server that starts can be stopped, and its pod goes at once; why a server ended is announced to its user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import jupyterhub
import pytest
from sqlalchemy.exc import OperationalError

from gpuspawner.hub.kubespawner.hub_pods import find_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start import endings
from gpuspawner.hub.start.endings import (
    ServerEnd,
    add_announcements,
    has_never_run,
    list_events_since,
    may_have_pod,
    read_end,
    write_end,
)
from gpuspawner.hub.start.stream import add_cancel_button
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.followed import Reflector

IS_5 = jupyterhub.version_info < (6,)


@pytest.fixture
async def spawner(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch) -> GPUSpawner:
    made = make_spawner()
    monkeypatch.setattr(type(made), "pod_reflector", Reflector(pods={}))
    return made


def put(spawner: GPUSpawner, phase: str) -> None:
    spawner.pod_reflector.pods[f"{spawner.namespace}/{spawner.pod_name}"] = {"status": {"phase": phase}}


def ended(error: BaseException | None = None) -> Any:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if error is None:
        future.cancel()
    else:
        future.set_exception(error)
        _ = future.exception()
    return future


async def test_a_named_server_has_a_button_of_its_own_and_hides_the_one_that_stops_another(spawner: GPUSpawner):
    spawner.orm_spawner = SimpleNamespace(name="my lab", server=None)
    html = add_cancel_button(spawner, "It <waits>.")
    assert html.startswith('It &lt;waits&gt;.<span class="gs-cancel">')
    assert 'value="/api/users/ada/servers/my%20lab"' in html
    assert "#stop-server-btn{display:none}" in html


async def test_the_default_server_has_one_where_jupyterhub_has_none(spawner: GPUSpawner):
    html = add_cancel_button(spawner, "It waits.")
    assert ('value="/api/users/ada/server"' in html) is IS_5
    assert bool(html) is IS_5


async def test_no_name_becomes_html(spawner: GPUSpawner):
    spawner.user.escaped_name = '"><script>'
    spawner.orm_spawner = SimpleNamespace(name='x"><script>', server=None)
    assert "<script" not in add_cancel_button(spawner, "<script>")


async def test_a_start_that_was_cut_off_may_have_sent_a_pod_that_is_not_seen_yet(spawner: GPUSpawner):
    assert may_have_pod(spawner, is_pod_unseen=False) is False
    assert may_have_pod(spawner, is_pod_unseen=True) is True


async def test_a_start_that_failed_leaves_the_pod_that_is_there(spawner: GPUSpawner):
    spawner._start_future = ended(ValueError("x"))
    assert may_have_pod(spawner, is_pod_unseen=False) is False
    put(spawner, "Failed")
    assert (may_have_pod(spawner, is_pod_unseen=False), await spawner.poll()) == (True, None)


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
async def test_a_pod_that_never_ran_needs_no_time_to_end(spawner: GPUSpawner, phase: str):
    put(spawner, phase)
    spawner._start_future = ended()
    assert has_never_run(spawner) is True


@pytest.mark.parametrize("state", [{"running": {}}, {"terminated": {"reason": "Completed", "exitCode": 0}}])
async def test_what_prepares_a_server_is_given_time(spawner: GPUSpawner, state: dict[str, Any]):
    put(spawner, "Pending")
    (pod,) = spawner.pod_reflector.pods.values()
    spawner._start_future = ended()
    pod["status"]["initContainerStatuses"] = [{"name": "copy", "state": {"waiting": {"reason": "PodInitializing"}}}]
    assert has_never_run(spawner) is True
    pod["status"]["initContainerStatuses"] = [{"name": "copy", "state": state}]
    assert has_never_run(spawner) is False


async def test_what_runs_is_given_time(spawner: GPUSpawner):
    put(spawner, "Running")
    spawner._start_future = ended()
    assert has_never_run(spawner) is False
    spawner._start_future = asyncio.get_running_loop().create_future()
    spawner._start_future.set_result("http://x")
    put(spawner, "Pending")
    assert has_never_run(spawner) is False


async def test_nothing_is_known_before_anything_is_watched(make_spawner: MakeSpawner):
    spawner = make_spawner()
    assert (find_pod(spawner), has_never_run(spawner)) == (None, False)
    assert may_have_pod(spawner, is_pod_unseen=False) is False


# -- held up -----------------------------------------------------------------------------------------------------------

HELD = (
    "Your server has ended, but Kubernetes keeps its pod until kueue.x-k8s.io/managed releases it. It can be started"
    " again after that."
)


def hold(spawner: GPUSpawner, *, deleted_s_ago: float, finalizers: list[str]) -> None:
    """Have the pod deleted some time ago, with finalizers."""
    put(spawner, "Succeeded")
    at = datetime.now(UTC) - timedelta(seconds=deleted_s_ago)
    metadata = {"deletionTimestamp": at.isoformat(timespec="seconds"), "finalizers": finalizers}
    spawner.pod_reflector.pods[f"{spawner.namespace}/{spawner.pod_name}"]["metadata"] = metadata


@pytest.mark.parametrize(
    ("deleted_s_ago", "finalizers", "expected"),
    [
        pytest.param(60, ["kueue.x-k8s.io/managed"], HELD, id="held up"),
        pytest.param(60, [], "", id="without a finalizer"),
        pytest.param(1, ["kueue.x-k8s.io/managed"], "", id="just deleted"),
        pytest.param(-30, ["kueue.x-k8s.io/managed"], "", id="within its grace period"),
    ],
)
async def test_a_stop_says_which_finalizer_holds_it_up_and_ends_with_it(
    spawner: GPUSpawner, monkeypatch: pytest.MonkeyPatch, deleted_s_ago: float, finalizers: list[str], expected: str
):
    monkeypatch.setattr(endings, "_PAUSE_S", 0.01)
    monkeypatch.setattr(endings, "read_pods", succeed)
    hold(spawner, deleted_s_ago=deleted_s_ago, finalizers=finalizers)
    released = asyncio.Event()
    announce = add_announcements({})["announcement"]
    user = SimpleNamespace(orm_spawners={}, spawners={"": spawner})

    async def stop(_now: bool) -> None:
        await released.wait()

    stopping = asyncio.create_task(endings.stop_server(spawner, stop, now=False))
    await asyncio.sleep(0.1)
    told = announce(user)
    released.set()
    await stopping
    assert (told or "", announce(user) or "") == (expected, "")


@pytest.mark.parametrize(
    ("finalizers", "stops"), [pytest.param(["a/b"], 3, id="held up"), pytest.param([], 1, id="without a finalizer")]
)
async def test_a_stop_that_is_held_up_outlasts_kubespawners_timeout(
    spawner: GPUSpawner, monkeypatch: pytest.MonkeyPatch, finalizers: list[str], stops: int
):
    monkeypatch.setattr(endings, "read_pods", succeed)
    hold(spawner, deleted_s_ago=60, finalizers=finalizers)
    asked = []

    async def stop(_now: bool) -> None:
        asked.append(_now)
        if len(asked) < 3:
            raise TimeoutError("pod a/b did not disappear in 20 seconds!")

    with pytest.raises(TimeoutError) if stops == 1 else nullcontext():
        await endings.stop_server(spawner, stop, now=False)
    assert len(asked) == stops


async def succeed(*_: object) -> bool:
    return True


# -- announcements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A user whose servers have ended with these messages, so many hours before they are read.

    The rows of a test are made when pytest collects it, minutes before the test runs.
    """

    ends: Mapping[str, str]
    server: object
    hours_ago: float
    told_by: str

    @property
    def orm_spawners(self) -> dict[str, SimpleNamespace]:
        at = datetime.now(UTC) - timedelta(hours=self.hours_ago)
        ends = {
            name: write_end(ServerEnd(code="x", message=message, told_by=self.told_by, at=at))
            for name, message in self.ends.items()
        }
        return {
            name.replace("default", ""): SimpleNamespace(server=self.server, state={"gpuspawner": end})
            for name, end in ends.items()
        }


def viewer(*, server: object = None, hours_ago: float = 0, told_by: str = "", **ends: str) -> Viewer:
    return Viewer(ends=ends, server=server, hours_ago=hours_ago, told_by=told_by)


class Unreadable:
    """A user whose servers the hub's database does not tell."""

    @property
    def orm_spawners(self) -> Any:
        raise OperationalError("SELECT", {}, OSError("down"))


@pytest.mark.parametrize(
    ("seen_by", "admins", "expected"),
    [
        pytest.param(viewer(default="It <ended>."), None, "It &lt;ended&gt;.", id="ours, escaped"),
        pytest.param(viewer(default="A.", lab="B."), "<b>C</b>", "A.<br>lab: B.<br><b>C</b>", id="before the admin's"),
        pytest.param(viewer(default="A."), lambda _: "C", "A.<br>C", id="before what the admin's function returns"),
        pytest.param(viewer(default="A.", server=object()), "C", "C", id="nothing of a server that runs"),
        pytest.param(viewer(), "C", "C", id="nothing without an end"),
        pytest.param(viewer(default="A.", hours_ago=23), None, "A.", id="for a day"),
        pytest.param(viewer(default="A.", hours_ago=25), "C", "C", id="nothing after a day"),
        pytest.param(viewer(default="A.", hours_ago=-25), "C", "C", id="nothing where the clock was wrong"),
        pytest.param(viewer(default="A.", told_by="hub", hours_ago=0.1), None, "A.", id="a failed start"),
        pytest.param(viewer(default="A.", told_by="hub", hours_ago=0.2), "C", "C", id="a failed start for 10 min only"),
        pytest.param(Unreadable(), "C", "C", id="nothing without the database"),
        pytest.param(None, "C", "C", id="no user is logged in"),
        pytest.param(
            SimpleNamespace(orm_spawners={"": SimpleNamespace(server=None, state=None)}), None, None, id="new"
        ),
    ],
)
def test_an_end_is_announced_to_its_user_before_what_the_admin_announces(seen_by: Any, admins: Any, expected: object):
    assert add_announcements({"announcement": admins})["announcement"](seen_by) == expected


def test_a_page_that_shows_an_error_announces_only_what_the_admin_announces():
    announce = add_announcements({"announcement": "C"})["announcement"]
    try:
        int("x")  # tornado handles an error while it renders its page
    except ValueError:
        found = announce(viewer(default="A."))
    assert (found, announce(viewer(default="A."))) == ("C", "A.<br>C")


@pytest.mark.parametrize("at", [None, "", "yesterday", 5, "2026-11-22T10:00:00"], ids=str)
def test_an_end_whose_time_cannot_be_read_is_not_shown(at: object):
    assert read_end({"gpuspawner": {"end": {"code": "x", "message": "A.", "at": at}}}) is None


def test_only_announcements_are_added_to_and_only_once():
    once = add_announcements({"announcement_home": "A", "color": "red"})
    twice = add_announcements(once)
    assert sorted(twice) == ["announcement", "announcement_home", "color"]
    assert twice["announcement_home"](viewer(default="B.")) == "B.<br>A"


def test_events_of_an_earlier_server_are_not_those_of_the_last():
    events = [
        {"lastTimestamp": "2026-11-22T09:59:59Z", "eventTime": None},
        {"lastTimestamp": None, "eventTime": "2026-11-22T10:00:00.123456Z"},
        {"lastTimestamp": "2026-11-22T10:00:05Z", "eventTime": None},
    ]
    start = datetime(2026, 11, 22, 10, 0, 0, 900_000, tzinfo=UTC)
    assert list_events_since(events, start) == events[1:]
    assert list_events_since(events, None) == events
