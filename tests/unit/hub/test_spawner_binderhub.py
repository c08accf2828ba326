"""A site's own user options reach its hooks, as BinderHub's spawner mixin needs it, and nothing else of them does."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub import orm
from jupyterhub.utils import maybe_future
from tornado import web

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.hub.starts import GPU_OPTIONS, begin, environment, pod_of

TOKEN = "s3cr3t-of-ada"
IMAGE = "registry.example/r2d/binder:abc123"
# The request of BinderHub's launcher when a user starts a repository.
SENT = {
    "image": IMAGE,
    "repo_url": "https://git.example/a/b",
    "token": TOKEN,
    "binder_ref_url": "https://git.example/a/b/tree/main",
    "binder_launch_host": "https://binder.example/",
    "binder_request": "v2/gh/a/b/main",
    "binder_persistent_request": "v2/gh/a/b/abc123",
}
SITE = {
    **SETTINGS,
    "extra_options": [*SENT],
    "custom_images": {"allowed": True, "registries": ["registry.example/r2d"]},
}


class BinderDemands:
    """Asks of a spawner what BinderHub's ``BinderSpawnerMixin`` asks: options as sent, in every method it overrides."""

    def get_args(self) -> list[str]:
        return [f"--ServerApp.base_url={self.server.base_url}", f"--ServerApp.token={self.user_options['token']}"]

    def get_env(self) -> dict[str, Any]:
        found = super().get_env()
        names = {"repo_url": "BINDER_REPO_URL", **{name: name.upper() for name in SENT if name.startswith("binder_")}}
        return {**found, **{names[name]: self.user_options[name] for name in names if name in self.user_options}}

    def start(self) -> Any:
        for name in ("token", "image"):
            if name not in self.user_options:
                raise web.HTTPError(400, f"{name} required")
        self.image = self.user_options["image"]
        return super().start()


@pytest.fixture
def make_binder(make_spawner: MakeSpawner) -> Any:
    def make(mixin: type = BinderDemands, **more: Any) -> GPUSpawner:
        kubespawner = {"cmd": ["jupyterhub-singleuser"], **more.pop("kubespawner", {})}
        spawner = make_spawner(kubespawner=kubespawner, **{"settings": SITE, **more})
        spawner.__class__ = type("BinderSpawner", (mixin, type(spawner)), {})
        # JupyterHub makes the server's record before a start.
        server = orm.Server(proto="http", ip="10.0.0.1", port=8888, base_url="/user/ada/", cookie_name="c")
        spawner.orm_spawner = SimpleNamespace(user_options=None, server=server, name="", state={})
        return spawner

    return make


async def begun(spawner: GPUSpawner, options: dict[str, Any]) -> dict[str, Any]:
    """Begin a start that the REST API asked for, as JupyterHub and the mixin do, and return the pod."""
    spawner.user_options = options
    spawner.clear_state()
    await spawner._run_apply_user_options(spawner.user_options)
    await maybe_future(spawner.run_pre_spawn_hook())
    spawner.image = spawner.user_options["image"]
    await spawner.load_user_options()
    pod: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(await spawner.get_pod_manifest())
    return pod


async def test_binderhubs_options_reach_arguments_and_environment(make_binder: Any):
    spawner = make_binder()
    pod = await begun(spawner, dict(SENT))
    (notebook,) = pod["spec"]["containers"]
    assert notebook["image"] == IMAGE
    assert f"--ServerApp.token={TOKEN}" in notebook["args"]
    assert environment(pod)["BINDER_REPO_URL"] == SENT["repo_url"]
    assert environment(pod)["BINDER_REQUEST"] == SENT["binder_request"]
    assert {name: spawner.user_options[name] for name in SENT} == SENT
    assert spawner.orm_spawner.user_options == spawner.user_options


async def test_with_a_profile_list_no_setting_is_needed(make_binder: Any):
    gpu = {
        "display_name": "GPU",
        "slug": "gpu",
        "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": "1"}},
    }
    spawner = make_binder(settings={}, kubespawner={"profile_list": [{"display_name": "CPU", "slug": "cpu"}, gpu]})
    options = {**SENT, "profile": "gpu"}
    pod = await begun(spawner, dict(options))
    (notebook,) = pod["spec"]["containers"]
    assert (notebook["image"], notebook["resources"]["limits"]) == (IMAGE, {"nvidia.com/gpu": "1"})
    assert f"--ServerApp.token={TOKEN}" in notebook["args"]
    assert environment(pod)["BINDER_REPO_URL"] == SENT["repo_url"]
    assert spawner.user_options == options


async def test_a_server_starts_again_with_the_options_that_were_stored(make_binder: Any):
    spawner = make_binder()
    first = await begun(spawner, {**SENT, "image": "registry.example/r2d/binder"})
    stored = dict(spawner.user_options)
    assert await begun(spawner, stored) == first
    assert spawner.user_options == stored


async def test_a_form_can_be_opened_before_anything_was_sent(make_binder: Any):
    spawner = make_binder()
    for options in ({}, dict(SENT)):
        spawner.user_options = options
        page = await spawner.get_options_form()
        assert "you had last time" not in page
        assert TOKEN not in page
    field = BeautifulSoup(page, "html.parser").select_one("[name=custom_image]")
    assert field["value"] == IMAGE


async def test_the_choice_goes_with_a_sites_own_options(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={**SETTINGS, "extra_options": ["course"]})
    value = {"any": ["json", 1, None]}
    pod = await pod_of(spawner, {**GPU_OPTIONS, "course": value})
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert spawner.user_options["course"] is value


async def test_a_link_sets_none_of_a_sites_own_options(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={**SETTINGS, "extra_options": ["course"]})
    with pytest.raises(web.HTTPError, match="course"):
        await spawner.options_from_query({"course": ["ml-101"]})


@pytest.mark.parametrize(
    ("extra", "options", "message"),
    [
        pytest.param([], {"token": TOKEN}, "token: ", id="none by default"),
        pytest.param(["repo_url"], {"token": TOKEN, "repo_url": "x"}, "token: ", id="another one"),
        pytest.param(["token"], {"token": TOKEN, "image": IMAGE}, "image: ", id="a reference as image"),
        pytest.param(["token"], {"token": TOKEN, "gpu": "h900"}, "gpu: ", id="a wrong choice"),
        pytest.param(["image"], {"image": "ghcr.io/foreign/own:1"}, "custom_image: ", id="from elsewhere"),
        pytest.param(
            ["image"], {"image": IMAGE, "custom_image": "registry.example/r2d/other"}, "image: ", id="two images"
        ),
    ],
)
async def test_a_value_that_is_not_listed_or_allowed_is_refused_and_not_quoted(
    make_spawner: MakeSpawner, caplog: pytest.LogCaptureFixture, extra: list[str], options: Any, message: str
):
    spawner = make_spawner(settings={**SITE, "extra_options": extra})
    with caplog.at_level(logging.DEBUG), pytest.raises(web.HTTPError, match=message) as refused:
        await begin(spawner, options)
    assert TOKEN not in f"{refused.value} {refused.value.jupyterhub_message} {caplog.text}"


async def test_a_secret_is_in_no_log_and_no_annotation(make_binder: Any, caplog: pytest.LogCaptureFixture):
    spawner = make_binder()
    with caplog.at_level(logging.DEBUG):
        pod = await begun(spawner, dict(SENT))
    assert TOKEN not in caplog.text
    assert TOKEN not in str(pod["metadata"])
    assert TOKEN not in spawner.user_options["profile"]
