"""The cards of KubeSpawner's profiles say what each profile gives and whether it starts now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import A100, MakeSpawner, node
from tests.unit.kube.watch_server import NODES, WatchServer

ONE_GPU = {"extra_resource_limits": {"nvidia.com/gpu": "1"}, "node_selector": {"nvidia.com/gpu.product": A100}}
PLAIN = {"display_name": "Plain", "slug": "plain", "description": "To <b>read</b>.", "default": True}
GPU = {"display_name": "GPU", "slug": "gpu", "kubespawner_override": ONE_GPU}
ALL = {
    "display_name": "All",
    "slug": "all",
    "kubespawner_override": {**ONE_GPU, "extra_resource_limits": {"nvidia.com/gpu": "5"}},
}
SIZES = {
    "size": {
        "display_name": "Size",
        "choices": {
            "small": {"display_name": "Small", "kubespawner_override": {"mem_guarantee": "1G"}},
            "large": {"display_name": "Large", "kubespawner_override": {"mem_guarantee": "900G"}},
        },
    }
}


async def show(spawner: Any) -> dict[str, tuple[str, str]]:
    """Return the name of each card → what its profile gives, and when it starts."""
    page = BeautifulSoup(await maybe_future(spawner.get_options_form()), "html.parser")

    def read(card: Any, name: str) -> str:
        return " ".join(card.select_one(name).get_text().split())

    return {
        read(card, "b"): (read(card, ".gs-holds"), read(card, ".gs-outlook")) for card in page.select(".gs-profile")
    }


def make(make_spawner: MakeSpawner, *profiles: Any, **more: Any) -> Any:
    return make_spawner(settings={}, kubespawner={"profile_list": list(profiles), **more})


NOW = "Starts now: room for 4 like this."
MANY = "Starts now: room for at least 100 like this."


async def test_each_profile_says_what_it_gives_and_when_it_starts(make_spawner: MakeSpawner):
    cards = await show(make(make_spawner, PLAIN, GPU, ALL))
    assert cards == {
        "Plain": ("No GPU", MANY),
        "GPU": ("1 × A100 80 GB", NOW),
        "All": ("5 × A100 80 GB", cards["All"][1]),
    }
    assert cards["All"][1].startswith("No such node is running:")


async def test_a_pod_that_may_get_any_type_says_so(make_spawner: MakeSpawner, server: WatchServer):
    server.put(NODES, node("t4", {"nvidia.com/gpu.product": "Tesla-T4"}, **{"nvidia.com/gpu": "1"}))
    any_gpu = {"display_name": "Any", "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpu": 1}}}
    unknown = {"display_name": "New", "kubespawner_override": {"extra_resource_limits": {"nvidia.com/mig-9g.99gb": 2}}}
    cards = await show(make(make_spawner, any_gpu, unknown))
    assert {name: summary for name, (summary, _) in cards.items()} == {
        "Any": "1 × A100 80 GB or T4",
        "New": "2 × nvidia.com/mig-9g.99gb of unknown type",
    }


async def test_the_admins_html_stays_html(make_spawner: MakeSpawner):
    profile = {**PLAIN, "display_name": "<em>Plain</em>"}
    page = await maybe_future(make(make_spawner, profile).get_options_form())
    assert [text in page for text in ("To <b>read</b>.", "<em>Plain</em>")] == [True, True]


@pytest.mark.parametrize("kind", ["list", "mapping", "function"])
async def test_every_kind_of_profile_list_is_shown(make_spawner: MakeSpawner, kind: str):
    async def make_list(_: Any) -> list[Any]:
        return [PLAIN, GPU]

    profiles = {"list": [PLAIN, GPU], "mapping": {"a": PLAIN, "b": GPU}, "function": make_list}[kind]
    spawner = make_spawner(settings={})
    if kind == "mapping" and "Dict" not in str(spawner.traits()["profile_list"].info()).title():
        pytest.skip("KubeSpawner 7.0 takes no mapping")
    spawner.profile_list = profiles
    assert await show(spawner) == {"Plain": ("No GPU", MANY), "GPU": ("1 × A100 80 GB", NOW)}


async def test_the_verdict_is_for_the_picked_choices(make_spawner: MakeSpawner):
    spawner = make(make_spawner, {**GPU, "profile_options": SIZES})
    assert await show(spawner) == {"GPU": ("1 × A100 80 GB · at least 1 GiB", NOW)}
    spawner.user_options = {"profile": "gpu", "size": "large"}
    ((summary, outlook),) = (await show(spawner)).values()
    assert summary == "1 × A100 80 GB · at least 900 GiB"
    assert outlook.startswith("No such node is running:")


async def test_a_typed_text_counts(make_spawner: MakeSpawner):
    memory = {"unlisted_choice": {"enabled": True, "kubespawner_override": {"mem_guarantee": "{value}"}}}
    spawner = make(make_spawner, {**GPU, "profile_options": {"memory": memory}})
    assert await show(spawner) == {"GPU": ("", "")}
    spawner.user_options = {"profile": "gpu", "memory--unlisted-choice": "3G"}
    assert await show(spawner) == {"GPU": ("1 × A100 80 GB · at least 3 GiB", NOW)}


async def test_the_card_of_the_last_start_comes_first_with_its_choices(make_spawner: MakeSpawner):
    spawner = make(make_spawner, PLAIN, {**GPU, "profile_options": SIZES})
    spawner.user_options = {"profile": "gpu", "size": "large"}
    page = BeautifulSoup(await maybe_future(spawner.get_options_form()), "html.parser")
    first = page.select_one(".gs-profile")
    assert first is not None
    assert (first["data-profile"], first.select_one(".gs-last").get_text(), first.has_attr("data-picked")) == (
        "gpu",
        "Last time",
        True,
    )
    assert [option["value"] for option in first.select("option[selected]")] == ["large"]


async def test_the_cards_fields_are_those_of_kubespawners_form(make_spawner: MakeSpawner):
    images = {"choices": {"lab": {"display_name": "Lab"}}, "unlisted_choice": {"enabled": True}}
    spawner = make(make_spawner, {**GPU, "profile_options": {"image": images}})
    page = BeautifulSoup(await maybe_future(spawner.get_options_form()), "html.parser")
    names = [field["name"] for field in page.select(".gs-profile [name]")]
    assert names == ["profile-option-gpu--image", "profile-option-gpu--image--unlisted-choice", "profile"]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param(
            {"kubespawner_override": {"mem_limit": lambda _: pytest.fail("called for a form")}}, ("", ""), id="function"
        ),
        pytest.param(
            {"kubespawner_override": {"mem_limit": ["no", "amount"]}},
            (
                "",
                "The hub cannot tell what this server gets. If it does not start, "
                "pick something else, or ask an admin.",
            ),
            id="wrong",
        ),
    ],
)
async def test_a_profile_without_a_verdict_leaves_the_others_alone(
    make_spawner: MakeSpawner, profile: dict[str, Any], expected: tuple[str, str]
):
    cards = await show(make(make_spawner, PLAIN, {"display_name": "Odd", "slug": "odd", **profile}))
    assert cards == {"Plain": ("No GPU", MANY), "Odd": expected}


async def test_a_function_that_fails_says_so_on_the_form(make_spawner: MakeSpawner):
    def fail(_: Any) -> list[Any]:
        raise RuntimeError("no answer")

    spawner = make_spawner(settings={})
    spawner.profile_list = fail
    page = BeautifulSoup(await maybe_future(spawner.get_options_form()), "html.parser")
    assert [alert.get_text() for alert in page.select("[role=alert]")] == [
        "The profiles could not be loaded. Try again, or ask an admin."
    ]


async def test_a_slow_function_ends_with_its_users_form(make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpuspawner.hub.form.profiles._LOAD_S", 0.05)
    spawner = make_spawner(settings={})
    spawner.profile_list = lambda _: asyncio.sleep(30)
    page = await maybe_future(spawner.get_options_form())
    assert "The profiles could not be loaded." in page


async def test_labels_of_nodes_are_text(make_spawner: MakeSpawner, server: WatchServer):
    product = "A-{{7*7}}-<b>x</b>"
    server.put(NODES, node("odd", {"nvidia.com/gpu.product": product}, **{"nvidia.com/gpu": "4"}))
    override = {**ONE_GPU, "node_selector": {"nvidia.com/gpu.product": product}}
    found = await show(make(make_spawner, {**GPU, "kubespawner_override": override}))
    assert found == {"GPU": ("1 × A 7 7 b x b", NOW)}


async def test_the_admins_own_template_gets_the_profiles_as_they_are(make_spawner: MakeSpawner, tmp_path: Path):
    (tmp_path / "form.html").write_text("{{ profile_list | map(attribute='description') | list }}")
    spawner = make(make_spawner, PLAIN, additional_profile_form_template_paths=[str(tmp_path)])
    assert await maybe_future(spawner.get_options_form()) == "['To <b>read</b>.']"
    spawner = make(make_spawner, PLAIN, profile_form_template="{{ profile_list[0].description }}")
    assert await maybe_future(spawner.get_options_form()) == "To <b>read</b>."


async def test_one_setting_keeps_kubespawners_form(make_spawner: MakeSpawner):
    page = await maybe_future(make(make_spawner, PLAIN, profile_cards=False).get_options_form())
    assert ("kubespawner-profiles-list" in page, "gs-profile" in page) == (True, False)


async def test_without_the_nodes_the_cards_say_what_the_pods_say(make_spawner: MakeSpawner, server: WatchServer):
    server.status = {NODES: 403}
    assert await show(make(make_spawner, PLAIN, GPU)) == {
        "Plain": ("No GPU", ""),
        "GPU": ("1 × NVIDIA GPU of unknown type", ""),
    }


async def test_a_group_override_counts_in_the_verdict(make_spawner: MakeSpawner):
    spawner = make(make_spawner, PLAIN)
    spawner.user.groups = [SimpleNamespace(name="far")]
    spawner.group_overrides = {
        "far": {"groups": ["far"], "spawner_override": {"node_selector": {"kubernetes.io/hostname": "none"}}}
    }
    assert "Starts now" not in (await show(spawner))["Plain"][1]


async def test_a_quota_that_leaves_too_little_refuses_the_profile(make_spawner: MakeSpawner, server: WatchServer):
    quota = {
        "metadata": {"name": "q"},
        "status": {"hard": {"requests.nvidia.com/gpu": "1"}, "used": {"requests.nvidia.com/gpu": "1"}},
    }
    server.put("/api/v1/namespaces/default/resourcequotas", quota)
    cards = await show(make(make_spawner, PLAIN, GPU, namespace="default"))
    assert cards == {
        "Plain": ("No GPU", MANY),
        "GPU": ("1 × A100 80 GB", "The cluster's quota leaves no GPU for one more server."),
    }


async def test_a_quota_without_a_pod_left_refuses_all_profiles(make_spawner: MakeSpawner, server: WatchServer):
    quota = {"metadata": {"name": "q"}, "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}
    server.put("/api/v1/namespaces/default/resourcequotas", quota)
    page = BeautifulSoup(
        await maybe_future(make(make_spawner, PLAIN, namespace="default").get_options_form()), "html.parser"
    )
    assert (
        page.select_one("#gpuspawner-blocked").get_text() == "The cluster's quota leaves no room for one more server."
    )
    assert page.select_one(".gs-start").has_attr("disabled")


async def test_a_subclass_that_loads_profiles_its_own_way_keeps_kubespawners_form(make_spawner: MakeSpawner):
    class Own(GPUSpawner):
        async def load_user_options(self) -> None:
            self.node_selector = {"own": "yes"}

    spawner = make_spawner(kind=Own, settings={}, kubespawner={"profile_list": [PLAIN]})
    assert "kubespawner-profiles-list" in await maybe_future(spawner.get_options_form())


async def test_a_longer_start_timeout_of_a_profile_is_not_promised(make_spawner: MakeSpawner):
    override = {**ONE_GPU, "start_timeout": 7200}
    spawner = make(make_spawner, {**GPU, "kubespawner_override": override}, start_timeout=300)
    spawner.user_options = {"profile": "gpu"}
    await spawner.load_user_options()
    assert spawner.start_timeout == 300


@pytest.mark.parametrize("trait", ["image_spec", "pvc_name"])
async def test_old_names_and_attributes_of_a_profile_are_restored_as_well(make_spawner: MakeSpawner, trait: str):
    spawner = make(make_spawner, PLAIN, {**GPU, "kubespawner_override": {trait: "of-the-profile"}})
    before = getattr(spawner, trait)
    spawner.user_options = {"profile": "gpu"}
    await spawner.load_user_options()
    assert getattr(spawner, trait) == "of-the-profile"
    spawner.clear_state()
    assert getattr(spawner, trait) == before
