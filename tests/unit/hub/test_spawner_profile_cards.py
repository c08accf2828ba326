"""Starts from the cards of profiles: what a form sends, what the policy refuses, and what it writes into the pod."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import format_exception, maybe_future

from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import A100, SETTINGS, MakeSpawner, node
from tests.unit.hub.starts import begin
from tests.unit.kube.watch_server import NODES, WatchServer

GPU = "nvidia.com/gpu"
PRODUCT = f"{GPU}.product"
COUNTS = {
    str(number): {
        "display_name": f"{number} GPUs",
        "kubespawner_override": {"extra_resource_limits": {GPU: str(number)}},
    }
    for number in (1, 2, 4)
}
IMAGES = {
    "choices": {"lab": {"display_name": "Lab", "kubespawner_override": {"image": "lab:1"}}},
    "unlisted_choice": {
        "enabled": True,
        "validation_regex": "^acme/",
        "validation_message": "Must be acme/.",
        "kubespawner_override": {"image": "{value}"},
    },
}
PROFILES: list[dict[str, Any]] = [
    {"display_name": "CPU", "slug": "cpu", "kubespawner_override": {"cpu_limit": 2, "mem_limit": "4G"}},
    {
        "display_name": "A100",
        "slug": "a100",
        "kubespawner_override": {"node_selector": {PRODUCT: A100}, "extra_resource_limits": {GPU: "1"}},
        "profile_options": {"count": {"display_name": "GPUs", "choices": COUNTS}, "image": IMAGES},
    },
    {"display_name": "Any GPU", "slug": "any", "kubespawner_override": {"extra_resource_limits": {GPU: "1"}}},
]
TWO = {"profile": "a100", "count": "2"}


def make(make_spawner: MakeSpawner, settings: Any = None, **traits: Any) -> GPUSpawner:
    return make_spawner(settings=settings or {}, kubespawner={"profile_list": PROFILES}, **traits)


async def send(spawner: GPUSpawner, **fields: str) -> Any:
    """Send a card's fields, and return the user options or the refusal."""
    try:
        return await maybe_future(spawner.run_options_from_form({name: [text] for name, text in fields.items()}))
    except RefusedStart as refused:
        return refused


async def show(spawner: GPUSpawner) -> dict[str, tuple[str, str]]:
    """Return the slug of each card → what it says of its start, and its error."""
    page = BeautifulSoup(await maybe_future(spawner.get_options_form()), "html.parser")

    def read(card: Any, name: str) -> str:
        line = card.select_one(name)
        return " ".join(line.get_text().split()) if line else ""

    return {
        str(card["data-profile"]): (read(card, ".gs-outlook"), read(card, ".gs-error"))
        for card in page.select(".gs-profile")
    }


def format_refusal(refused: RefusedStart) -> str:
    return str(refused.log_message)


async def start(spawner: GPUSpawner, options: Any) -> dict[str, Any] | str:
    """Start a server as far as its pod, and return the pod or the message of the refusal."""
    try:
        await begin(spawner, options)
        pod = await spawner.get_pod_manifest()
        if spawner.modify_pod_hook:
            pod = spawner.modify_pod_hook(spawner, pod)
        with suppress(TypeError, TimeoutError):  # the server's answer is no pod
            await spawner._make_create_pod_request(pod, 1)
    except RefusedStart as refused:
        return format_exception(refused)[0]
    return cast("dict[str, Any]", spawner.api.api_client.sanitize_for_serialization(pod))


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        pytest.param({"profile": "cpu"}, {"profile": "cpu"}, id="a profile"),
        pytest.param({"profile": "a100", "profile-option-a100--count": "2"}, TWO, id="with a choice"),
        pytest.param(
            {
                "profile": "a100",
                "profile-option-a100--image": "",
                "profile-option-a100--image--unlisted-choice": "acme/x:1",
            },
            {"profile": "a100", "image--unlisted-choice": "acme/x:1"},
            id="with a text",
        ),
        pytest.param(
            {
                "profile": "a100",
                "profile-option-a100--image": "lab",
                "profile-option-a100--image--unlisted-choice": "old text",
            },
            {"profile": "a100", "image": "lab"},
            id="with the text field that a page without scripts sends as well",
        ),
        pytest.param(
            {"profile": "cpu", "profile-option-a100--count": "2"}, {"profile": "cpu"}, id="beside another card"
        ),
        pytest.param({}, {}, id="nothing"),
    ],
)
async def test_a_card_sends_kubespawners_user_options(
    make_spawner: MakeSpawner, fields: dict[str, str], options: dict[str, str]
):
    assert await send(make(make_spawner), **fields) == options


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        pytest.param({"profile": "gone"}, "There is no profile 'gone'. Offered: cpu, a100, any.", id="profile"),
        pytest.param(
            {"profile": "a100", "profile-option-a100--image--unlisted-choice": "evil/x"},
            "Must be acme/.",
            id="text",
        ),
        pytest.param(
            {"profile": "a100", "profile-option-a100--image--unlisted-choice": "acme/" + "x" * 2000},
            "This field is longer than 520 characters.",
            id="length",
        ),
    ],
)
async def test_a_wrong_choice_is_refused_in_words(make_spawner: MakeSpawner, fields: dict[str, str], error: str):
    spawner = make(make_spawner)
    refused = await send(spawner, **fields)
    assert isinstance(refused, RefusedStart)
    assert (refused.status_code, error in format_refusal(refused)) == (400, True)
    if fields["profile"] != "gone":
        assert (await show(spawner))["a100"] == ("", f"Error: {error}")


def know_team(own: GPUSpawner) -> None:
    own.extra_pod_config = {"hostname": "of-physics"}
    own.volume_mounts = [{"name": "home", "mountPath": "/home", "subPath": "u/physics"}]


UNKNOWN_NAME = "u/{team}"
"""Template with a name that KubeSpawner does not know; a hook replaces it."""


@pytest.mark.parametrize(
    ("traits", "outlook"),
    [
        pytest.param(
            {"volume_mounts": [{"name": "home", "mountPath": "/home", "subPath": UNKNOWN_NAME}]},
            "Starts now",
            id="what schedulers ignore",
        ),
        pytest.param({"extra_pod_config": {"hostname": UNKNOWN_NAME}}, "The hub cannot tell", id="the rest"),
    ],
)
async def test_a_profile_starts_whose_pod_only_a_hook_makes_complete(
    make_spawner: MakeSpawner, traits: dict[str, Any], outlook: str
):
    spawner = make(make_spawner, pre_spawn_hook=know_team, **traits)
    assert (await show(spawner))["cpu"][0].startswith(outlook)
    options = await send(spawner, profile="cpu")
    assert options == {"profile": "cpu"}
    pod: Any = await start(spawner, options)
    (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
    assert (mount["subPath"], pod["spec"]["hostname"]) == ("u/physics", "of-physics")


POLICY = {"policy": {"default": {"max_gpus": 2, "cpu": {"max": 4}}}}


async def test_the_policy_holds_for_a_card_and_says_so_there(make_spawner: MakeSpawner):
    spawner = make(make_spawner, {"policy": {"default": {"max_gpus_per_server": 1}}})
    refused = await send(spawner, profile="a100", **{"profile-option-a100--count": "2"})
    assert (type(refused), refused.status_code, refused.code) == (RefusedStart, 403, "gpu_quota")
    outlook, error = (await show(spawner))["a100"]
    assert (outlook, error) == ("", "Error: You may have 1 GPU in one server.")


REFUSALS = [
    pytest.param({"max_gpus": 1}, TWO, "gpu: You may have 1 GPU at a time.", id="total"),
    pytest.param({"max_gpus_per_server": 1}, TWO, "gpu: You may have 1 GPU in one server.", id="per server"),
    pytest.param({"gpus": ["mi210"]}, TWO, "gpu: You don't have access to A100.", id="type"),
    pytest.param({"gpus": ["mi210"]}, {"profile": "any"}, "gpu: You don't have access to A100.", id="a possible type"),
    pytest.param({"cpu": {"max": 1}}, {"profile": "cpu"}, "cpu: You may not have more than 1 CPU.", id="CPU"),
    pytest.param(
        {"memory": {"max": "8G"}}, {"profile": "any"}, "memory: You may not have more than 8 GiB of memory.", id="none"
    ),
    pytest.param(
        {"custom_images": False},
        {"profile": "a100", "image--unlisted-choice": "acme/x:1"},
        "custom_image: You may only use images from the list.",
        id="image",
    ),
]
GPUS = {"gpus": SETTINGS["gpus"]}


@pytest.mark.parametrize(("rule", "options", "message"), REFUSALS)
async def test_the_policy_refuses_a_profiles_pod(
    make_spawner: MakeSpawner, server: WatchServer, rule: dict[str, Any], options: dict[str, Any], message: str
):
    spawner = make(make_spawner, {**GPUS, "policy": {"default": rule}})
    assert await start(spawner, options) == message
    assert [request for request in server.requests if request.method == "POST" and "/pods" in request.path] == []


async def test_the_policy_holds_for_what_a_sites_own_form_sends(make_spawner: MakeSpawner, tmp_path: Path):
    (tmp_path / "form.html").write_text("{{ profile_list | tojson }}")
    templates = [str(tmp_path)]
    rule = {"max_gpus_per_server": 1}
    spawner = make(make_spawner, {"policy": {"default": rule}}, additional_profile_form_template_paths=templates)
    assert '"slug": "a100"' in await maybe_future(spawner.get_options_form())
    fields = {"select-profile": "a100", "profile-option-a100--count": "2", "profile-option-a100--image": "lab"}
    options = await send(spawner, profile="a100", **fields)
    assert options == {**TWO, "image": "lab"}
    assert await start(spawner, options) == "gpu: You may have 1 GPU in one server."
    pod: Any = await start(spawner, {**options, "count": "1"})
    assert pod["spec"]["containers"][0]["resources"]["limits"][GPU] == "1"


async def test_the_policy_lets_the_rest_through_as_kubespawner_builds_it(make_spawner: MakeSpawner):
    plain = await start(make(make_spawner), TWO)
    limited = await start(make(make_spawner, {**GPUS, "policy": {"default": {"max_gpus": 2}}}), TWO)
    assert isinstance(plain, dict)
    assert isinstance(limited, dict)
    assert limited["spec"] == plain["spec"]


async def test_a_run_time_of_the_policy_ends_a_profiles_pod(make_spawner: MakeSpawner):
    spawner = make(make_spawner, {"policy": {"default": {"max_runtime": "1h"}}})
    pod = await start(spawner, {"profile": "cpu"})
    assert isinstance(pod, dict)
    names = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
    annotation = pod["metadata"]["annotations"]["gpuspawner.jupyter.org/run-time-seconds"]
    assert (pod["spec"]["activeDeadlineSeconds"], annotation, "GPUSPAWNER_ENDS_AT" in names) == (3600, "3600", True)


async def test_a_hook_cannot_lift_a_limit(make_spawner: MakeSpawner):
    def add_gpus(_: Any, pod: Any) -> Any:
        pod.spec.containers[0].resources.limits = {GPU: "4"}
        return pod

    spawner = make(make_spawner, {**GPUS, "policy": {"default": {"max_gpus": 2}}}, modify_pod_hook=add_gpus)
    assert await start(spawner, {"profile": "cpu"}) == "gpu: You may have 2 GPUs at a time."


async def test_a_pool_counts_a_profiles_server(make_spawner: MakeSpawner):
    pools = {"lab": {"groups": ["physics"], "gpus": ["a100"], "max_gpus": 8}}
    spawner = make(make_spawner, {**GPUS, "pools": pools})
    spawner.user.groups = [SimpleNamespace(name="physics")]
    pod = await start(spawner, TWO)
    assert isinstance(pod, dict)
    assert pod["metadata"]["annotations"]["gpuspawner.jupyter.org/pools"] == "lab"


async def test_of_two_starts_at_once_only_one_gets_the_last_gpus(make_spawner: MakeSpawner):
    settings = {**GPUS, "policy": {"default": {"max_gpus": 2}}}
    rows = [SimpleNamespace(name=name, user_options={}, server=None, state={}) for name in ("", "second")]
    first, second = (make(make_spawner, settings, orm_spawner=row) for row in rows)
    first._spawn_pending = second._spawn_pending = True
    results = await asyncio.gather(*(start(spawner, TWO) for spawner in (first, second)))
    assert [result for result in results if isinstance(result, str)] == [
        "gpu: You may have 2 GPUs at a time. 2 are in use by your default server. Stop it first."
    ]


async def test_profiles_and_fields_start_side_by_side(make_spawner: MakeSpawner):
    spawner = make(make_spawner, SETTINGS)
    fields = await send(spawner, image="minimal", cpu="3", memory="4G", gpu="")
    assert (fields["v"], fields["cpu"]) == (1, 3)
    assert await send(spawner, profile="cpu", image="minimal", cpu="3") == {"profile": "cpu"}
    pods = [await start(make(make_spawner, SETTINGS), options) for options in ({"profile": "cpu"}, fields, {})]
    limits = [pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in pods if isinstance(pod, dict)]
    assert limits == [2, 3, 2]


@pytest.mark.parametrize("section", ["policy", "gpus", "pools", "new_nodes"])
async def test_settings_without_a_field_leave_the_form_to_the_profiles(make_spawner: MakeSpawner, section: str):
    settings = {"policy": {"default": {"max_gpus": 1}}, **GPUS, "pools": {}, "new_nodes": "none"}
    spawner = make(make_spawner, {section: settings[section]})
    assert spawner.has_fields is False
    assert list(await show(spawner)) == ["cpu", "a100", "any"]


async def test_hide_leaves_out_profiles_that_no_choice_makes_startable(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, node("amd", {"amd.com/gpu.product": "MI210"}, **{"amd.com/gpu": "1"}))
    spawner = make(make_spawner, {**GPUS, "policy": {"hide": True, "default": {"gpus": ["mi210"]}}})
    cards = await show(spawner)
    assert cards == {"cpu": cards["cpu"], "a100": ("You don't have access to A100.", "")}
