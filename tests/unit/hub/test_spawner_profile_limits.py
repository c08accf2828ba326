"""Limits and refusals of profiles where their pods are unusual: unknown types, texts of users, hooks, subclasses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.objects import Hub
from jupyterhub.utils import maybe_future
from kubernetes_asyncio.client import V1Container, V1ResourceRequirements
from tornado import web
from traitlets.config import Config

from gpuspawner.hub.errors import ClusterFailure, RefusedStart, is_hub_failure
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import GPU_NODE, SETTINGS, MakeSpawner
from tests.unit.hub.starts import our_annotations
from tests.unit.hub.test_spawner_profile_cards import (
    GPU,
    GPUS,
    PRODUCT,
    PROFILES,
    TWO,
    format_refusal,
    make,
    send,
    show,
    start,
)
from tests.unit.kube.watch_server import NODES, WatchServer

FOUR = {**TWO, "count": "4"}
PODS = "/api/v1/namespaces/default/pods"
TYPE_RULE = {"policy": {"default": {"gpus": {"*": {}, "a100-80gb": {"max_gpus": 1}}}}}
POOL = {"pools": {"lab": {"groups": ["physics"], "gpus": ["a100-80gb"], "max_gpus": 1}}}
NEXT_TYPES = {
    "a100": SETTINGS["gpus"]["a100"],
    "h100": {**SETTINGS["gpus"]["a100"], "display_name": "H100", "match": {PRODUCT: ["H100"]}},
}


def write(override: dict[str, Any], **field: Any) -> list[dict[str, Any]]:
    """Return a ``profile_list`` with one profile, into whose option ``x`` the user writes a text."""
    unlisted = {"enabled": True, "kubespawner_override": override, **field}
    return [{"display_name": "T", "slug": "t", "profile_options": {"x": {"unlisted_choice": unlisted}}}]


def texts(value: str) -> dict[str, str]:
    return {"profile": "t", "x--unlisted-choice": value}


def in_group(spawner: GPUSpawner, group: str = "physics") -> GPUSpawner:
    spawner.user.groups = [SimpleNamespace(name=group)]
    return spawner


# -- unknown types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [TYPE_RULE, POOL], ids=["rule", "pool"])
async def test_a_limit_of_a_type_holds_while_no_node_has_the_type(
    make_spawner: MakeSpawner, server: WatchServer, settings: Any
):
    server.delete(NODES, GPU_NODE)
    refused = await start(in_group(make(make_spawner, settings)), FOUR)
    assert isinstance(refused, str)
    assert "1 GPU" in refused


@pytest.mark.parametrize("settings", [TYPE_RULE, POOL], ids=["rule", "pool"])
async def test_a_pod_above_a_limit_of_some_type_waits_until_the_hub_can_read_the_nodes(
    make_spawner: MakeSpawner, server: WatchServer, settings: Any
):
    server.denied |= {("list", "nodes"), ("watch", "nodes")}
    spawner = in_group(make(make_spawner, settings))
    with pytest.raises(ClusterFailure) as failed:
        await start(spawner, FOUR)
    assert failed.value.status_code == 503
    assert isinstance(await start(spawner, {**TWO, "count": "1"}), dict)


async def test_a_server_of_several_possible_types_counts_once_while_it_starts(
    make_spawner: MakeSpawner, server: WatchServer
):
    settings = {"gpus": NEXT_TYPES, "policy": {"default": {"max_gpus": 2}}}
    rows = [SimpleNamespace(name=name, user_options={}, server=None, state={}) for name in ("", "second")]
    first, second = (make(make_spawner, settings, orm_spawner=row) for row in rows)
    first._spawn_pending = second._spawn_pending = True
    pod = await start(first, {"profile": "any"})
    assert isinstance(pod, dict)
    pod["metadata"] |= {"namespace": "default", "uid": "u1"}
    server.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "gpu-1"}, "status": {"phase": "Pending"}})

    async def count() -> int:
        allowance = await first.admission.find_allowance(second, await second.make_offer(), is_start=True)
        return sum(used.count for used in allowance.usage.own)

    async with asyncio.timeout(5):
        while not first.admission.reservations._uids_of:
            await count()
            await asyncio.sleep(0.01)
    assert await count() == 1


# -- texts of users --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "text"),
    [
        pytest.param({"mem_limit": "{value}"}, "lots", id="no amount of memory"),
        pytest.param({"cpu_limit": "{value}"}, "many", id="no number of CPUs"),
        pytest.param({"extra_labels": {"x": "{value}"}}, "{", id="a brace"),
        pytest.param({"extra_labels": {"x": "{value}"}}, "{nope}", id="a template of nothing"),
        pytest.param({"extra_annotations": {"x": "{value}"}}, "{0.__class__}", id="a template of an object"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "{value}"}}]}, "{", id="a brace in a list"),
    ],
)
async def test_a_text_that_kubespawner_cannot_use_is_refused_in_words_and_no_failure_of_the_hub(
    make_spawner: MakeSpawner, caplog: pytest.LogCaptureFixture, override: Any, text: str
):
    spawner = make_spawner(settings={}, kubespawner={"profile_list": write(override)})
    message = "x: this text cannot be used. Enter something else, or ask an admin."
    refused = await send(spawner, profile="t", **{"profile-option-t--x--unlisted-choice": text})
    assert (type(refused), message in format_refusal(refused), is_hub_failure(refused)) == (RefusedStart, True, False)
    assert (await show(spawner))["t"] == ("", f"Error: {message}")
    assert await start(spawner, texts(text)) == message
    assert [record.levelname for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(
    "override",
    [
        {"image": "{value}"},
        {"image_spec": "{value}"},
        {"singleuser_image_spec": "{value}"},
        {"extra_container_config": {"image": "{value}"}},
        {"extra_containers": [{"name": "more", "image": "{value}"}]},
    ],
    ids=lambda override: next(iter(override)),
)
async def test_who_may_name_no_image_names_none_under_any_name(make_spawner: MakeSpawner, override: Any):
    settings = {"policy": {"default": {"custom_images": False}}}
    spawner = make_spawner(settings=settings, kubespawner={"profile_list": write(override)})
    assert await start(spawner, texts("evil/x:1")) == "custom_image: You may only use images from the list."


@pytest.mark.parametrize("text", ["8", "8e0", "8e00000", "8" + "0" * 70])
async def test_a_text_that_is_a_number_of_gpus_is_held_to_the_limit(make_spawner: MakeSpawner, text: str):
    settings = {**GPUS, "policy": {"default": {"max_gpus": 1}}}
    profiles = write({"extra_resource_limits": {GPU: "{value}"}})
    spawner = make_spawner(settings=settings, kubespawner={"profile_list": profiles})
    assert isinstance(await start(spawner, texts(text)), str)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"profile": "cpu", "junk": "x" * 200_000}, id="an option of nothing"),
        pytest.param({"junk": "x" * 200_000}, id="no profile"),
        pytest.param({"profile": "a100", "image--unlisted-choice": "acme/" + "x" * 200_000}, id="a text"),
        pytest.param({"profile": "a100", "image--unlisted-choice": "acme/" + "x" * 2000}, id="a text of a page"),
        pytest.param({"profile": "a100", "image--unlisted-choice": "acme/\ud800"}, id="a text that is no Unicode"),
        pytest.param({"profile": "a100", "image--unlisted-choice": ["acme/x"]}, id="no text"),
    ],
)
async def test_options_of_profiles_are_bounded_also_without_a_form(make_spawner: MakeSpawner, options: Any):
    refused = await start(make(make_spawner), options)
    assert isinstance(refused, str)
    assert len(refused) < 500


async def test_a_pattern_that_is_no_regular_expression_accepts_nothing(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={}, kubespawner={"profile_list": write({"image": "{value}"}, validation_regex="(")})
    assert str(await start(spawner, texts("a"))).startswith("x: this text cannot be used.")


async def test_the_admins_words_for_a_wrong_text_are_said(make_spawner: MakeSpawner):
    options = {"profile": "a100", "image--unlisted-choice": "evil/x"}
    assert await start(make(make_spawner), options) == "Must be acme/."


# -- hooks, subclasses, groups ---------------------------------------------------------------------------------------


async def test_the_servers_own_container_is_limited_wherever_a_hook_puts_it(make_spawner: MakeSpawner):
    def hook(_: object, pod: Any) -> Any:
        amounts = V1ResourceRequirements(limits={"cpu": "0.1", "memory": "1Gi"})
        pod.spec.containers.insert(0, V1Container(name="sidecar", image="sidecar", resources=amounts))
        return pod

    spawner = make(make_spawner, {"policy": {"default": {"cpu": {"max": 1}}}}, modify_pod_hook=hook)
    assert await start(spawner, {"profile": "cpu"}) == "cpu: You may not have more than 1 CPU."


async def test_the_annotations_of_gpus_go_with_the_gpus_that_a_hook_takes_out(make_spawner: MakeSpawner):
    def hook(_: object, pod: Any) -> Any:
        pod.spec.containers[0].resources.limits = {}
        return pod

    pod = await start(make(make_spawner, modify_pod_hook=hook), TWO)
    assert our_annotations(pod).keys() & {"gpu", "gpu-name", "gpu-count"} == set()


class Site(GPUSpawner):
    """A site's subclass that sets traits instead of loading a profile."""

    async def load_user_options(self) -> None:
        self.extra_resource_limits = {GPU: "8"}


@pytest.mark.parametrize(("most", "is_refused"), [(1, True), (8, False)])
async def test_limits_hold_for_a_subclass_that_loads_the_options_in_its_own_way(
    make_spawner: MakeSpawner, most: int, is_refused: bool
):
    model = make(make_spawner)
    settings = {**GPUS, "policy": {"default": {"max_gpus": most}}}
    config = Config({"GPUSpawner": settings, "KubeSpawner": {"profile_list": PROFILES}})
    hub = Hub(ip="127.0.0.1", port=8081)
    spawner = Site(hub=hub, user=model.user, config=config, api_token="s", oauth_client_id="u")
    assert isinstance(await start(spawner, {"profile": "cpu"}), str) is is_refused


def overrides(values: dict[str, Any]) -> dict[str, Any]:
    return {"01": {"groups": ["ml"], "spawner_override": values}}


async def test_fields_that_only_a_group_has_are_read_as_they_are_shown(make_spawner: MakeSpawner):
    fields = {name: SETTINGS[name] for name in ("cpu", "memory", "images", "gpus")}
    traits = {"profile_list": PROFILES, "group_overrides": overrides(fields)}
    spawner = in_group(make_spawner(settings={}, kubespawner=traits), "ml")
    chosen = {"image": "minimal", "cpu": "3", "memory": "4G", "gpu": "a100", "gpu_count": "2"}
    options = await send(spawner, **chosen)
    assert (options["gpu"], options["gpu_count"], options["image"]) == ("a100", 2, "minimal")


async def test_profiles_that_only_a_group_has_are_shown_and_read(make_spawner: MakeSpawner):
    traits = {"profile_list": PROFILES, "group_overrides": overrides({"profile_list": PROFILES[:1]})}
    spawner = in_group(make_spawner(settings={}, kubespawner=traits), "ml")
    assert list(await show(spawner)) == ["cpu"]
    assert "There is no profile 'a100'. Offered: cpu." in format_refusal(await send(spawner, profile="a100"))


@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["profiles alone", "beside fields"])
async def test_an_admins_own_field_is_kept_beside_a_card(make_spawner: MakeSpawner, settings: Any):
    spawner = make(make_spawner, {**settings, "extra_options": ["course"]})
    assert await send(spawner, profile="cpu", course="ml") == {"profile": "cpu", "course": "ml"}


# -- a profile_list that is a function -------------------------------------------------------------------------------


async def test_profiles_that_cannot_be_loaded_again_are_no_wrong_choice(make_spawner: MakeSpawner):
    answers = [PROFILES, RuntimeError("api down"), RuntimeError("api down")]

    def profiles(_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    spawner = make_spawner(settings={}, kubespawner={"profile_list": profiles})
    assert list(await show(spawner)) == ["cpu", "a100", "any"]
    message = "The profiles could not be loaded. Try again, or ask an admin."
    assert message in format_refusal(await send(spawner, profile="a100"))


async def test_what_such_a_function_tells_the_user_is_told(make_spawner: MakeSpawner):
    def profiles(_: object) -> Any:
        raise web.HTTPError(403, "Join the course first.")

    spawner = make_spawner(settings={}, kubespawner={"profile_list": profiles})
    with pytest.raises(web.HTTPError, match="Join the course first"):
        await maybe_future(spawner.get_options_form())


async def read_form(spawner: GPUSpawner) -> tuple[list[str], bool]:
    """Return the messages of a form, and whether it hides the hub's own Start."""
    page = await maybe_future(spawner.get_options_form())
    messages = BeautifulSoup(page, "html.parser").select(".gs-message")
    texts = [message.get_text(strip=True) for message in messages]
    return [text for text in texts if text], "~ .feedback-container" in page


async def test_a_function_without_profiles_leaves_the_hubs_start_as_with_kubespawner(make_spawner: MakeSpawner):
    spawner = make_spawner(settings={}, kubespawner={"profile_list": lambda _: []})
    assert await read_form(spawner) == ([], False)


async def test_where_the_policy_hides_all_profiles_nothing_can_be_started(make_spawner: MakeSpawner):
    settings = {"policy": {"hide": True, "default": {"cpu": {"max": 1}}}}
    spawner = make_spawner(settings=settings, kubespawner={"profile_list": PROFILES[:1]})
    assert await read_form(spawner) == (["There is no profile that you can start. Ask an admin."], True)


async def test_a_refusal_of_a_form_that_names_no_profile_stands_at_the_default(make_spawner: MakeSpawner):
    spawner = make(make_spawner, {"policy": {"default": {"cpu": {"max": 1}}}})
    assert isinstance(await send(spawner), RefusedStart)
    assert (await show(spawner))["cpu"][1] == "Error: You may not have more than 1 CPU."


async def test_the_pods_of_a_users_cards_are_built_once(make_spawner: MakeSpawner):
    first, second = make(make_spawner), make(make_spawner)
    await show(first)
    number = len(first.cards._pods)
    await show(second)
    assert (len(second.cards._pods), number > 0) == (number, True)
