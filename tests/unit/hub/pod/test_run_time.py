"""The hub ends a server where the cluster does not, and announces the end."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_events.logger import EventLogger
from kubernetes_asyncio.client import V1Container, V1EnvVar, V1Pod, V1PodSpec

from gpuspawner.hub.pod.patch import RUN_TIME_ANNOTATION, RUN_TIME_VARIABLE
from gpuspawner.hub.pod.run_time import END_VARIABLE, SCHEMA_ID, add_end_time, enforce_run_time
from gpuspawner.hub.start.state import StartState
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.pod.pods import make_pod
from tests.unit.hub.starts import environment

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


class FakeSpawner:
    """The parts of a spawner that are used, with a pod that has run since ten and may run for an hour."""

    def __init__(self, *, deadline: int | None = 3600, eventlog: Any = None) -> None:
        self.namespace, self.pod_name, self.name, self._log_name = "hub", "jupyter-ada", "lab", "ada:lab"
        self.start_state = StartState()
        self.user = SimpleNamespace(name="ada", settings={"eventlog": eventlog} if eventlog else {})
        self.log = logging.getLogger("time-limits")
        self.stops: list[bool] = []
        self.pod: dict[str, Any] = {
            "metadata": {"uid": "1"},
            "spec": {} if deadline is None else {"activeDeadlineSeconds": deadline},
            "status": {"startTime": "2026-11-22T10:00:00Z"},
        }
        self.pod_reflector = SimpleNamespace(pods={"hub/jupyter-ada": self.pod})

    async def stop(self, *, now: bool) -> None:
        self.stops.append(now)


@pytest.fixture
def recorded() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def eventlog(recorded: io.StringIO) -> EventLogger:
    """JupyterHub's own kind of event log, with a handler that listens."""
    return EventLogger(handlers=[logging.StreamHandler(recorded)])


async def test_a_server_runs_until_its_end_and_a_little_longer_and_is_then_deleted():
    spawner = FakeSpawner()
    assert await enforce_run_time(spawner, now=START + HOUR + timedelta(seconds=119)) is None
    assert spawner.stops == []
    assert await enforce_run_time(spawner, now=START + HOUR + timedelta(seconds=121)) == 1
    assert spawner.stops == [True]


@pytest.mark.parametrize(("own_s", "ends_s"), [(30, 120), (600, 660)])
async def test_a_pod_that_has_longer_to_end_is_not_cut_off(own_s: int, ends_s: int):
    spawner = FakeSpawner()
    spawner.pod["spec"]["terminationGracePeriodSeconds"] = own_s
    ended = [
        await enforce_run_time(spawner, now=START + HOUR + timedelta(seconds=each)) for each in (ends_s - 1, ends_s + 1)
    ]
    assert ended == [None, 1]


async def test_a_server_without_an_end_runs_on():
    spawner = FakeSpawner(deadline=None)
    assert await enforce_run_time(spawner, now=START + 1000 * HOUR) is None
    assert spawner.stops == []


@pytest.mark.parametrize("reflector", [None, SimpleNamespace(pods={})])
async def test_a_pod_that_the_hub_does_not_see_is_not_ended(reflector: Any):
    spawner = FakeSpawner()
    spawner.pod_reflector = reflector
    assert await enforce_run_time(spawner, now=START + 1000 * HOUR) is None


async def test_the_end_is_recorded_once_in_the_hubs_event_log(eventlog: EventLogger, recorded: io.StringIO):
    spawner = FakeSpawner(eventlog=eventlog)
    for minutes in (40, 44.9, 45, 50, 59):
        await enforce_run_time(spawner, now=START + timedelta(minutes=minutes))
    (event,) = map(json.loads, recorded.getvalue().splitlines())
    assert {name: value for name, value in event.items() if not name.startswith("__")} == {
        "username": "ada",
        "servername": "lab",
        "ends_at": "2026-11-22T11:00:00+00:00",
        "seconds_left": 900,
    }
    assert event["__schema__"] == SCHEMA_ID


async def test_each_servers_end_is_recorded(eventlog: EventLogger, recorded: io.StringIO):
    spawner = FakeSpawner(eventlog=eventlog)
    await enforce_run_time(spawner, now=START + timedelta(minutes=50))
    spawner.pod["metadata"]["uid"] = "2"
    await enforce_run_time(spawner, now=START + timedelta(minutes=51))
    assert len(recorded.getvalue().splitlines()) == 2


async def test_the_end_is_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    await enforce_run_time(FakeSpawner(), now=START + timedelta(minutes=50))
    assert [record.getMessage() for record in caplog.records] == [
        "ada:lab ends at 2026-11-22T11:00:00+00:00, when its run time is over"
    ]


# -- what the pod says ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "admins", "seconds"),
    [
        (3600, None, "3600"),
        (3600, {"activeDeadlineSeconds": 60}, "60"),
        (None, {"active_deadline_seconds": 60}, "60"),
        (60, {"activeDeadlineSeconds": 3600}, "60"),
    ],
)
def test_a_pod_says_the_run_time_that_counts(chosen: int | None, admins: dict[str, Any] | None, seconds: str):
    pod = make_pod({"extra_pod_config": admins} if admins else {}, run_time_s=chosen)
    assert pod["metadata"]["annotations"][RUN_TIME_ANNOTATION] == seconds
    assert environment(pod) == {RUN_TIME_VARIABLE: seconds}


@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"extra_pod_config": {}},
        {"extra_pod_config": {"activeDeadlineSeconds": None}},
        {"extra_pod_config": {"activeDeadlineSeconds": "1h"}},
    ],
    ids=str,
)
def test_a_pod_that_runs_on_says_nothing(traits: dict[str, Any]):
    pod = make_pod(traits)
    assert RUN_TIME_ANNOTATION not in pod["metadata"]["annotations"]
    assert environment(pod) == {}


def test_a_variable_of_the_admin_is_not_replaced_by_the_run_time():
    assert environment(make_pod({"environment": {RUN_TIME_VARIABLE: "own"}}, run_time_s=60)) == {
        RUN_TIME_VARIABLE: "own"
    }


@pytest.mark.parametrize(
    ("deadline_s", "told"),
    [
        pytest.param(3600, "2026-11-22T11:00:00Z", id="an hour"),
        pytest.param(2**31 - 1, "2094-12-10T13:14:07Z", id="as long as Kubernetes allows"),
        pytest.param(2**50, None, id="an end that no calendar has"),
        pytest.param(None, None, id="no end"),
    ],
)
def test_a_pod_tells_programs_when_it_ends_at_the_earliest(deadline_s: int | None, told: str | None):
    pod = model_pod(deadline_s)
    add_end_time(pod, now=START + timedelta(microseconds=999_999))
    assert {each.name: each.value for each in pod.spec.containers[1].env or ()} == (
        {END_VARIABLE: told} if told else {}
    )
    assert pod.spec.containers[0].env is None


def test_the_earliest_end_stays_when_the_pod_is_sent_again():
    pod = model_pod(3600)
    add_end_time(pod, now=START)
    add_end_time(pod, now=START + HOUR)
    assert [each.value for each in pod.spec.containers[1].env] == ["2026-11-22T11:00:00Z"]


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(V1EnvVar(name=END_VARIABLE, value="mine"), id="model"),
        pytest.param({"name": END_VARIABLE, "value": "mine"}, id="JSON of a hook"),
    ],
)
def test_an_admins_own_end_stays(own: Any):
    pod = model_pod(3600)
    pod.spec.containers[1].env = [own]
    add_end_time(pod, now=START)
    assert pod.spec.containers[1].env == [own]


def model_pod(deadline_s: int | None) -> V1Pod:
    """Return a pod of KubeSpawner with a sidecar, which an admin's hook has put before the notebook's container."""
    containers = [V1Container(name="sidecar"), V1Container(name="notebook")]
    return V1Pod(spec=V1PodSpec(containers=containers, active_deadline_seconds=deadline_s))


async def test_a_poll_ends_a_server_whose_time_is_over(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch):
    spawner = make_spawner()
    stopped: list[bool] = []

    async def watching() -> None:
        return None

    async def stop(*, now: bool) -> None:
        stopped.append(now)

    running = {"name": "notebook", "state": {"running": {}}}
    pod = {**FakeSpawner().pod, "status": {"startTime": "2020-01-01T00:00:00Z", "phase": "Running"}}
    pod["status"]["containerStatuses"] = [running]
    loaded = asyncio.get_running_loop().create_future()
    loaded.set_result(None)
    reflector = SimpleNamespace(pods={f"{spawner.namespace}/{spawner.pod_name}": pod}, first_load_future=loaded)
    monkeypatch.setattr(type(spawner), "pod_reflector", reflector)
    monkeypatch.setattr(spawner, "_start_watching_pods", watching)
    monkeypatch.setattr(spawner, "is_pod_running", lambda _: False)
    monkeypatch.setattr(spawner, "stop", stop)
    assert (await spawner.poll(), stopped) == (1, [True])
