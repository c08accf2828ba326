from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api
from kubespawner import KubeSpawner
from traitlets import Dict

from gpuspawner.cli.cluster.offline_spawner import share_connection
from gpuspawner.cli.compare.menu import UNLISTED
from gpuspawner.cli.compare.sides import ProfileSide, SettingsSide, Side, open_side
from gpuspawner.cli.values.helm_values import HelmValues
from tests.unit.cli.compare.conftest import SETTINGS, make_profiles, make_settings

MAY_BE_MAPPING = any(isinstance(each, Dict) for each in KubeSpawner.class_traits()["profile_list"].trait_types)


def opened(values: Any) -> Side:
    async def connect() -> Side:
        async with ApiClient(Configuration(host="http://127.0.0.1:9")) as client:
            with share_connection(CoreV1Api(client)):
                return open_side(HelmValues(merged=values))

    return asyncio.run(connect())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param(make_profiles(), ProfileSide, id="a profile list"),
        pytest.param({"jupyterhub": make_profiles()}, ProfileSide, id="below a parent chart"),
        pytest.param(make_settings(), SettingsSide, id="settings"),
        pytest.param({"a": {"jupyterhub": make_settings()}}, SettingsSide, id="settings two levels deep"),
        pytest.param({**make_profiles(), "hub": {"config": {"GPUSpawner": SETTINGS}}}, SettingsSide, id="both"),
        pytest.param({}, ProfileSide, id="neither"),
        pytest.param(
            {"hub": {"config": {"JupyterHub": {"spawner_class": "gpuspawner.GPUSpawner"}}}},
            SettingsSide,
            id="only the class",
        ),
    ],
)
def test_a_side_is_what_the_hub_would_run(values: Any, kind: type[Side]):
    assert type(opened(values)) is kind


@pytest.mark.parametrize("values", [make_profiles(), make_settings()], ids=["profiles", "settings"])
def test_options_stand_for_the_pick_of_which_they_are_made(values: Any):
    side = opened(values)
    picks = [profile.get_pick(index) for profile in side.profiles for index in range(profile.number)]
    assert [side.find_pick(side.make_options(pick)) for pick in picks] == picks
    assert len(picks) == 4


@pytest.mark.skipif(not MAY_BE_MAPPING, reason="KubeSpawner 7.0 takes no mapping of profiles")
def test_a_list_may_be_a_mapping_in_the_order_of_its_keys():
    first, second = make_profiles()["singleuser"]["profileList"]
    side = opened({"singleuser": {"profileList": {"b": first, "a": second}}})
    assert [each.slug for each in side.profiles] == ["gpu", "small"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("", "registry.example.org/team/image:1.0", id="any"),
        pytest.param("^.+:.+$", "registry.example.org/team/image:1.0", id="a tag"),
        pytest.param(r"^quay\.io/ours/[a-z]+:.+$", "quay.io/ours/image:1.0", id="a registry"),
        pytest.param(r"^\d+G$", "8G", id="memory"),
        pytest.param("^(?=x)y$", "", id="nothing fits"),
        pytest.param("(", "", id="no expression"),
    ],
)
def test_a_text_stands_for_what_the_user_writes(pattern: str, text: str):
    def edit(profiles: Any) -> None:
        profiles[1]["profile_options"]["image"]["unlisted_choice"]["validation_regex"] = pattern

    entry = opened(make_profiles(edit)).profiles[1].options[0].entries[-1]
    assert (entry.slug, entry.text) == (UNLISTED, text)
