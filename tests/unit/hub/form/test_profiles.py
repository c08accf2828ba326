"""KubeSpawner's form of profiles says what each profile gives and whether it starts now."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyterhub.utils import maybe_future

from gpuspawner.core.text.i18n import use_language
from gpuspawner.hub.request.languages import load_languages
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


async def show(spawner: Any) -> dict[str, str]:
    """Return the name of each profile → the text below it."""
    page = BeautifulSoup(await maybe_future(spawner.get_options_form()), "html.parser")
    profiles = page.select("#kubespawner-profiles-list > label")
    return {label.h3.get_text(): " ".join(label.p.get_text(" ").split()) if label.p else "" for label in profiles}


def make(make_spawner: MakeSpawner, *profiles: Any, **more: Any) -> Any:
    return make_spawner(settings={}, kubespawner={"profile_list": list(profiles), **more})


async def test_each_profile_has_its_gpus_and_a_verdict_after_the_admins_words(make_spawner: MakeSpawner):
    found = await show(make(make_spawner, PLAIN, GPU, ALL))
    assert found == {
        "Plain": "To read . Starts now: room for at least 100 like this.",
        "GPU": "1 × A100 80 GB Starts now: room for 4 like this.",
        "All": found["All"],
    }
    assert found["All"].startswith("5 × A100 80 GB No such node is running:")


async def test_the_admins_html_stays_html(make_spawner: MakeSpawner):
    template = await maybe_future(make(make_spawner, PLAIN).get_options_form())
    assert "To <b>read</b>." in template


@pytest.mark.parametrize("kind", ["list", "mapping", "function"])
async def test_every_kind_of_profile_list_is_described(make_spawner: MakeSpawner, kind: str):
    async def make_list(_: Any) -> list[Any]:
        return [PLAIN, GPU]

    profiles = {"list": [PLAIN, GPU], "mapping": {"a": PLAIN, "b": GPU}, "function": make_list}[kind]
    spawner = make_spawner(settings={})
    if kind == "mapping" and "Dict" not in str(spawner.traits()["profile_list"].info()).title():
        pytest.skip("KubeSpawner 7.0 takes no mapping")
    spawner.profile_list = profiles
    assert (await show(spawner))["GPU"] == "1 × A100 80 GB Starts now: room for 4 like this."


async def test_the_verdict_is_for_the_default_choices(make_spawner: MakeSpawner):
    found = await show(make(make_spawner, {**GPU, "profile_options": SIZES}))
    words = "1 × A100 80 GB With its default choices: Starts now: room for 4 like this."
    assert found == {"GPU": words}


async def test_choices_of_an_image_alone_change_no_verdict(make_spawner: MakeSpawner):
    images = {name: {"display_name": name, "kubespawner_override": {"image": name}} for name in ("a", "b")}
    options = {"image": {"display_name": "Image", "choices": images}}
    found = await show(make(make_spawner, {**GPU, "profile_options": options}))
    assert found == {"GPU": "1 × A100 80 GB Starts now: room for 4 like this."}


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(
            {"kubespawner_override": {"mem_limit": lambda _: pytest.fail("called for a form")}}, id="function"
        ),
        pytest.param(
            {"profile_options": {"x": {"display_name": "X", "choices": {}, "unlisted_choice": {"enabled": True}}}},
            id="text",
        ),
        pytest.param({"kubespawner_override": {"mem_limit": ["no", "amount"]}}, id="wrong"),
    ],
)
async def test_a_profile_without_a_verdict_leaves_the_form_alone(make_spawner: MakeSpawner, profile: dict[str, Any]):
    found = await show(make(make_spawner, PLAIN, {"display_name": "Odd", "slug": "odd", **profile}))
    assert found == {"Plain": "To read . Starts now: room for at least 100 like this.", "Odd": found["Odd"]}
    assert found["Odd"] == ""


async def test_labels_of_nodes_are_text(make_spawner: MakeSpawner, server: WatchServer):
    product = "A-{{7*7}}-<b>x</b>"
    server.put(NODES, node("odd", {"nvidia.com/gpu.product": product}, **{"nvidia.com/gpu": "4"}))
    override = {**ONE_GPU, "node_selector": {"nvidia.com/gpu.product": product}}
    found = await show(make(make_spawner, {**GPU, "kubespawner_override": override}))
    assert found == {"GPU": "1 × A 7 7 b x b Starts now: room for 4 like this."}


async def test_a_form_leaves_nothing_in_the_spawner(make_spawner: MakeSpawner):
    spawner = make(make_spawner, {**GPU, "profile_options": SIZES}, node_selector={"pool": "users"})
    before = (dict(spawner.node_selector), dict(spawner.extra_resource_limits), spawner.user_options)
    await show(spawner)
    after = (dict(spawner.node_selector), dict(spawner.extra_resource_limits), spawner.user_options)
    assert after == before


async def test_a_start_leaves_nothing_of_its_profile_for_the_next(make_spawner: MakeSpawner):
    spawner = make(make_spawner, PLAIN, GPU, node_selector={"pool": "users"})
    expected = await show(spawner)
    spawner.user_options = {"profile": "gpu"}
    await spawner.load_user_options()
    assert spawner.node_selector == {"pool": "users", "nvidia.com/gpu.product": A100}

    assert await show(spawner) == expected
    spawner.clear_state()
    spawner.user_options = {"profile": "plain"}
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    assert (pod.spec.node_selector, pod.spec.containers[0].resources.limits) == ({"pool": "users"}, {})


async def test_the_admins_own_template_gets_the_profiles_as_they_are(make_spawner: MakeSpawner, tmp_path: Path):
    (tmp_path / "form.html").write_text("{{ profile_list | map(attribute='description') | list }}")
    spawner = make(make_spawner, PLAIN, additional_profile_form_template_paths=[str(tmp_path)])
    assert await maybe_future(spawner.get_options_form()) == "['To <b>read</b>.']"
    spawner = make(make_spawner, PLAIN, profile_form_template="{{ profile_list[0].description }}")
    assert await maybe_future(spawner.get_options_form()) == "To <b>read</b>."


async def test_without_the_nodes_the_form_is_kubespawners(make_spawner: MakeSpawner, server: WatchServer):
    server.status = {NODES: 403}
    assert await show(make(make_spawner, PLAIN, GPU)) == {"Plain": "To read .", "GPU": "1 × nvidia.com/gpu"}


async def test_the_verdict_is_in_the_language_of_the_user(make_spawner: MakeSpawner):
    with use_language(load_languages()["de"]):
        found = await show(make(make_spawner, GPU))
    assert found == {"GPU": "1 × A100 80 GB Startet sofort: Platz für 4 solche Server."}


async def test_a_choice_that_gives_no_gpu_is_told_apart_from_the_default(make_spawner: MakeSpawner):
    kinds = {
        "gpu": {"display_name": "GPU", "default": True, "kubespawner_override": ONE_GPU},
        "cpu": {"display_name": "CPU"},
    }
    found = await show(
        make(
            make_spawner,
            {"display_name": "Any", "profile_options": {"kind": {"display_name": "Kind", "choices": kinds}}},
        )
    )
    assert found == {"Any": "1 × A100 80 GB With its default choices: Starts now: room for 4 like this."}


async def test_a_group_override_counts_in_the_verdict(make_spawner: MakeSpawner):
    spawner = make(make_spawner, PLAIN)
    spawner.user.groups = [SimpleNamespace(name="far")]
    spawner.group_overrides = {
        "far": {"groups": ["far"], "spawner_override": {"node_selector": {"kubernetes.io/hostname": "none"}}}
    }
    assert "Starts now" not in (await show(spawner))["Plain"]


async def test_a_quota_that_leaves_too_little_takes_the_verdict_away(make_spawner: MakeSpawner, server: WatchServer):
    quota = {
        "metadata": {"name": "q"},
        "status": {"hard": {"requests.nvidia.com/gpu": "1"}, "used": {"requests.nvidia.com/gpu": "1"}},
    }
    server.put("/api/v1/namespaces/default/resourcequotas", quota)
    found = await show(make(make_spawner, PLAIN, GPU, namespace="default"))
    assert found == {"Plain": "To read . Starts now: room for at least 100 like this.", "GPU": "1 × A100 80 GB"}


async def test_a_quota_without_a_pod_left_takes_all_verdicts_away(make_spawner: MakeSpawner, server: WatchServer):
    quota = {"metadata": {"name": "q"}, "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}
    server.put("/api/v1/namespaces/default/resourcequotas", quota)
    found = await show(make(make_spawner, PLAIN, GPU, namespace="default"))
    assert found == {"Plain": "To read .", "GPU": "1 × A100 80 GB"}


async def test_a_subclass_that_loads_profiles_its_own_way_gets_no_verdict(make_spawner: MakeSpawner):
    spawner = make(make_spawner, PLAIN)
    original = type(spawner)

    class Own(original):  # type: ignore[valid-type, misc]
        async def load_user_options(self) -> None:
            self.node_selector = {"own": "yes"}

    spawner.__class__ = Own
    assert await show(spawner) == {"Plain": "To read ."}


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
