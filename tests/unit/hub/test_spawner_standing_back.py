"""With a profile_list and no settings of gpuspawner, starts that fail, errors and events are KubeSpawner's."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.objects import Hub
from jupyterhub.utils import format_exception, maybe_future
from kubespawner import KubeSpawner
from traitlets import default
from traitlets.config import Config

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


# -- a subclass with a form of its own ---------------------------------------------------------------------------------

GPU_PROFILES = [{"display_name": "GPU", "slug": "gpu", "default": True, "kubespawner_override": {"mem_limit": "8G"}}]


def methods(base: type[KubeSpawner]) -> type[KubeSpawner]:
    class Methods(base):  # type: ignore[valid-type, misc]
        def options_form(self, spawner: KubeSpawner) -> str:
            return '<select name="size"><option value="big"></select>'

        def options_from_form(self, data: dict[str, list[str]]) -> dict[str, str]:
            return {"size": data["size"][0]}

    return Methods


def defaults(base: type[KubeSpawner]) -> type[KubeSpawner]:
    class Defaults(base):  # type: ignore[valid-type, misc]
        def _options_form_default(self) -> str:
            return '<select name="size"><option value="big"></select>'

        @default("options_from_form")
        def _read_size(self) -> Any:
            return lambda data: {"size": data["size"][0]}

    return Defaults


def dynamic(base: type[KubeSpawner]) -> type[KubeSpawner]:
    class Dynamic(base):  # type: ignore[valid-type, misc]
        def options_form(self, spawner: KubeSpawner) -> Any:
            self.profile_list = GPU_PROFILES
            return self._options_form_default()

    return Dynamic


def by_mixin(base: type[KubeSpawner]) -> type[KubeSpawner]:
    class Form:
        def options_form(self, spawner: KubeSpawner) -> str:
            return "<p>size</p>"

    class Mixed(Form, base):  # type: ignore[valid-type, misc]
        pass

    return Mixed


async def fill_in(spawner: Any, sent: dict[str, list[str]], *, shows_form: bool) -> tuple[str, Any, dict[str, Any]]:
    """Return the form, the options that the sent form gives, and the pod that they start."""
    form = await maybe_future(await maybe_future(spawner.get_options_form())) if shows_form else ""
    options = await maybe_future(spawner.run_options_from_form(sent))
    spawner.user_options = options
    await spawner._run_apply_user_options(options)
    try:
        await spawner.load_user_options()
    except ValueError as error:  # A fresh object does not have the profiles that the form has set.
        return form, options, {"error": str(error)}
    pod = (await spawner.get_pod_manifest()).to_dict()
    container = pod["spec"]["containers"][0]
    return form, options, {key: container[key] for key in ("image", "resources")}


@pytest.mark.parametrize("shows_form", [True, False], ids=["one object", "a fresh object for the answer"])
@pytest.mark.parametrize(
    ("make", "sent"),
    [
        pytest.param(methods, {"size": ["big"]}, id="methods"),
        pytest.param(defaults, {"size": ["big"]}, id="defaults"),
        pytest.param(dynamic, {"profile": ["gpu"]}, id="profiles that the form sets"),
        pytest.param(by_mixin, {}, id="mixin"),
    ],
)
async def test_the_form_of_a_subclass_is_as_with_kubespawner(
    make_spawner: MakeSpawner, make: Any, sent: dict[str, list[str]], shows_form: bool
):
    make_spawner()  # An object of the base class, with which a subclass shares nothing.
    found = []
    for base in (KubeSpawner, GPUSpawner):
        user = SimpleNamespace(name="ada", id=1, url="/user/ada/", settings={}, groups=[], escaped_name="ada")
        hub = Hub(ip="127.0.0.1", port=8081)
        spawner = make(base)(hub=hub, user=user, config=Config(), api_token="s", oauth_client_id="x")
        spawner.orm_spawner = None
        found.append(await fill_in(spawner, sent, shows_form=shows_form))
    assert found[0] == found[1]
