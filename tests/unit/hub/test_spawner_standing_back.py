"""With a profile_list and no settings of gpuspawner, starts that fail are gpuspawner's; the form is KubeSpawner's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.objects import Hub
from jupyterhub.utils import format_exception, maybe_future
from kubespawner import KubeSpawner
from traitlets import default
from traitlets.config import Config

from gpuspawner.hub.errors import RefusedProfile
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.hub_requests import RealHub
from tests.unit.kube.watch_server import WatchServer, eventually, refusal
from tests.unit.kube.watch_server import pod as other_pod

PODS = "/api/v1/namespaces/default/pods"
SIZES = {
    "choices": {"small": {}, "big": {"kubespawner_override": {"mem_limit": "8G"}}},
}
IMAGES = {
    "choices": {"lab": {}},
    "unlisted_choice": {"enabled": True, "validation_regex": "^acme/", "kubespawner_override": {"image": "{value}"}},
}
CONFIG = {
    "profile_list": [
        {"display_name": "A", "slug": "a", "profile_options": {"size": SIZES, "image": IMAGES}},
        {"display_name": "B", "slug": "b", "profile_options": {"image": {"unlisted_choice": {"enabled": True}}}},
    ],
    "k8s_api_request_timeout": 1,
    "k8s_api_request_retry_timeout": 1,
    "start_timeout": 1,
    "pod_name_template": "jupyter-{username}",
}
CHOSEN = {"profile": "a", "size": "big"}
MakeHub = Callable[..., RealHub]


@pytest.fixture
def make_hub(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch) -> MakeHub:
    """Make hubs with profiles alone, whose spawners talk to the server of ``make_spawner``."""

    def make(**kubespawner: Any) -> RealHub:
        hub = RealHub({"KubeSpawner": {**CONFIG, **kubespawner}})
        monkeypatch.setattr(JupyterHub, "_instance", hub.app)
        return hub

    return make


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"profile": "z"}, "There is no profile 'z'. Offered: a, b.", id="no such profile"),
        pytest.param(
            {"profile": "b"}, "Unable to determine a default choice for image.", id="no choice and no default"
        ),
    ],
)
async def test_a_choice_that_no_profile_has_is_refused_and_no_failure_of_the_hub(
    make_hub: MakeHub, server: WatchServer, options: dict[str, Any], message: str
):
    hub = make_hub()
    user = hub.add_user("ada")
    error = await hub.start(user, options)
    assert isinstance(error, Exception)
    assert (type(error), hub.failures, hub.stored(user)) == (RefusedProfile, 0, {})
    assert format_exception(error)[0].startswith(message)
    assert [each for each in server.requests if each.method == "POST" and each.path == PODS] == []


async def test_a_refused_profile_leaves_the_options_of_the_last_start(make_hub: MakeHub, server: WatchServer):
    server.answers = {("POST", PODS): refusal(422)}
    hub = make_hub()
    user = hub.add_user("ada")
    await hub.start(user, CHOSEN)
    await hub.start(user, {"profile": "z"})
    assert hub.stored(user) == CHOSEN


# -- a running server --------------------------------------------------------------------------------------------------


async def test_a_stop_of_a_running_server_gives_the_admins_grace_period(make_spawner: MakeSpawner, server: WatchServer):
    spawner = make_spawner(settings={}, kubespawner={**CONFIG, "delete_grace_period": 7})
    pod = other_pod(spawner.pod_name, phase="Running", namespace="default", uid="1")
    server.put(PODS, pod)
    stopping = asyncio.ensure_future(spawner.stop())
    await eventually(lambda: [each for each in server.requests if each.method == "DELETE"])
    (asked,) = [each for each in server.requests if each.method == "DELETE"]
    server.delete(PODS, pod)
    await stopping
    assert asked.query["gracePeriodSeconds"] == "7"


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
        return form, options, {"error": getattr(error, "jupyterhub_message", str(error))}
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
