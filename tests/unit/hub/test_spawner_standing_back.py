"""With a profile_list and no settings of gpuspawner, starts that fail, errors and events are KubeSpawner's."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.utils import format_exception
from kubespawner import KubeSpawner

from gpuspawner.hub.kubespawner.reflectors import is_given_up
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.hub_requests import RealHub
from tests.unit.kube.watch_server import HANG, WatchServer, refusal

PODS = "/api/v1/namespaces/default/pods"
POD = {
    "metadata": {"name": "jupyter-ada", "namespace": "default", "uid": "1", "labels": {}},
    "spec": {"containers": []},
    "status": {"phase": "Failed"},
}
CONFIG = {
    "profile_list": [{"display_name": "A", "slug": "a"}],
    "k8s_api_request_timeout": 1,
    "k8s_api_request_retry_timeout": 1,
    "start_timeout": 1,
    "pod_name_template": "jupyter-{username}",
}


def bug(_: Any) -> None:
    raise KeyError("a group of hers")


@pytest.mark.parametrize(
    ("answer", "options", "kubespawner"),
    [
        pytest.param(refusal(403, "exceeded quota: gpus"), {"profile": "a"}, {}, id="quota"),
        pytest.param(refusal(422), {"profile": "a"}, {}, id="invalid"),
        pytest.param(refusal(500), {"profile": "a"}, {}, id="failing"),
        pytest.param(HANG, {"profile": "a"}, {}, id="no answer"),
        pytest.param(None, {"profile": "a"}, {}, id="slow"),
        pytest.param(None, {"profile": "z"}, {}, id="no such profile"),
        pytest.param(None, {"profile": "a"}, {"pre_spawn_hook": bug}, id="bug"),
    ],
)
async def test_a_start_that_fails_is_what_it_is_with_kubespawner(
    make_spawner: MakeSpawner,
    server: WatchServer,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    options: Any,
    kubespawner: Any,
):
    # KubeSpawner waits for start_timeout give or take a tenth, drawn at random. If JupyterHub's timer ended the start
    # while KubeSpawner's replaces the reflector, KubeSpawner's own stop would wait forever for the first list.
    monkeypatch.setattr("jupyterhub.utils.random", SimpleNamespace(uniform=max))
    server.answers = {} if answer is None else {("POST", PODS): answer}
    found = []
    for kind in (KubeSpawner, GPUSpawner):
        hub = RealHub({"KubeSpawner": {**CONFIG, **kubespawner}}, spawner_class=kind)
        monkeypatch.setattr(JupyterHub, "_instance", hub.app)
        user = hub.add_user("ada")
        error = await hub.start(user, options)
        assert isinstance(error, Exception)
        # The time is in the headers of an answer.
        told = re.sub(r"\d\d:\d\d:\d\d", "", str(format_exception(error)))
        found.append((type(error), told, hub.failures, hub.stored(user)))
    assert found[0] == found[1]


@pytest.fixture
async def failed(make_spawner: MakeSpawner, server: WatchServer) -> GPUSpawner:
    """A spawner whose start has failed, and whose pod is there."""
    spawner = make_spawner(settings={}, kubespawner={**CONFIG, "delete_grace_period": 7, "delete_stopped_pods": False})
    server.put(PODS, POD)
    with pytest.raises(TimeoutError):
        await spawner.start()
    return spawner


async def test_the_pod_of_a_failed_start_is_polled_as_with_kubespawner(failed: GPUSpawner):
    assert (await failed.poll(), await KubeSpawner.poll(failed)) == (1, 1)


async def test_the_pod_of_a_failed_start_is_deleted_as_with_kubespawner(failed: GPUSpawner, server: WatchServer):
    with pytest.raises(TimeoutError):
        await failed.stop()
    (asked,) = [each for each in server.requests if each.method == "DELETE"]
    assert asked.query["gracePeriodSeconds"] == "7"


async def test_events_are_read_as_by_kubespawner(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={}, kubespawner=CONFIG)
    await spawner._start_watching_events()
    own = {"involvedObject": {"name": spawner.pod_name}, "metadata": {"uid": "1"}}
    spawner.event_reflector.resources = {"1": own}
    with pytest.raises(KeyError, match="lastTimestamp"):
        _ = spawner.events
    spawner.event_reflector.resources = {"1": {**own, "lastTimestamp": "2026-11-22T10:00:00Z"}}
    assert spawner.events == KubeSpawner.events.fget(spawner)


async def test_a_watch_that_fails_is_what_it_is_with_kubespawner(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner(settings={}, kubespawner=CONFIG)
    server.status = {PODS: 401}
    with pytest.raises(Exception, match="401"):
        await spawner._start_watching_pods()
    (failed,) = type(spawner).reflectors.values()
    assert (failed.first_load_future.exception().status, is_given_up(failed)) == (401, False)
