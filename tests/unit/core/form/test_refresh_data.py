"""The data of a refresh of an open form: all of the page's data that may change, and the texts of the page's rows."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from gpuspawner.core.form import build
from gpuspawner.core.form.refresh import REFRESHED_GPU_COLUMNS, encode_refresh, encode_refreshed_gpu
from gpuspawner.core.form.views import GPUTypeView, ProfileOptionView, ProfileView, VerdictView
from tests.unit.core.form.test_build import CATALOG, INVENTORY
from tests.unit.islands import build_view, faults, island_of

VIEW = build_view(CATALOG, INVENTORY)


def test_members_are_those_of_the_page():
    island, (members, _) = build.encode_view(VIEW), encode_refresh(VIEW)
    assert members == {name: island[name] for name in members}
    told_otherwise = {"images", "gpus", "presets"}
    never_changed = {"age_s", "link_prefix", "choices", "shared_memory", "tag"}
    assert members.keys() | told_otherwise | never_changed == island.keys()


def test_rows_of_images_and_presets_are_those_of_the_page():
    island, (_, tables) = build.encode_view(VIEW), encode_refresh(VIEW)
    for name in ("images", "presets"):
        names, rows = tables[name]
        table: Any = island[name]
        assert list(names) == table["names"][: len(names)]
        assert list(rows.values()) == [row[: len(names)] for row in table["rows"]]


def test_the_row_of_a_gpu_type_has_what_the_page_shows_of_its_counts():
    gpu = VIEW.vendors[0].types[0]
    row = dict(zip(REFRESHED_GPU_COLUMNS, encode_refreshed_gpu(gpu), strict=True))
    assert {name: row[name] for name in ("healthy", "capacity_text", "details_text", "longest_text")} == {
        "healthy": gpu.healthy,
        "capacity_text": gpu.capacity_text,
        "details_text": gpu.details_text,
        "longest_text": gpu.longest_text,
    }
    assert build.encode_gpu_row(gpu) == tuple(row.values())[: len(build.GPU_COLUMNS)]


def test_every_attribute_of_a_gpu_type_that_may_change_while_nodes_stay_is_sent():
    told_by_page_alone = {
        *("vendor", "card", "memory_text", "unit", "unit_text", "badges", "caution", "description", "note"),
        *("largest", "waiting"),  # in details_text
    }
    assert {each.name for each in fields(GPUTypeView)} == told_by_page_alone | set(REFRESHED_GPU_COLUMNS)


def test_a_refresh_does_not_depend_on_the_age_of_the_counts():
    assert encode_refresh(VIEW) == encode_refresh(replace(VIEW, age_s=12.5, age_text="as of 2 min ago"))


SIZES = ProfileOptionView(field="profile-option-p--size", label="Size", choices=(("s", "S"), ("l", "L")), picked="l")
IMAGES = ProfileOptionView(
    field="profile-option-p--image",
    label="Image",
    choices=(),
    picked="",
    text_field="profile-option-p--image--unlisted-choice",
    text_label="Image",
    text="quay.io/a:1",
)


@pytest.mark.parametrize(
    ("options", "expected_fields"),
    [
        pytest.param((), {}, id="no option"),
        pytest.param((SIZES,), {"profile-option-p--size": "l"}, id="list"),
        pytest.param((IMAGES,), {"profile-option-p--image--unlisted-choice": "quay.io/a:1"}, id="text field"),
        pytest.param(
            (SIZES, replace(IMAGES, choices=(("torch", "Torch"), ("", "Other…")))),
            {
                "profile-option-p--size": "l",
                "profile-option-p--image": "",
                "profile-option-p--image--unlisted-choice": "quay.io/a:1",
            },
            id="list and text field",
        ),
    ],
)
@pytest.mark.parametrize("outlook", [None, VerdictView(outcome="now", sentence="Starts now")], ids=["unknown", "now"])
def test_the_card_of_a_profile_is_described(options: Any, expected_fields: Any, outlook: VerdictView | None):
    profile = ProfileView(slug="p", display_name="P", summary="4 CPUs", options=options, outlook=outlook)
    view = build.add_profiles(VIEW, (profile, replace(profile, slug="q", is_denied=True)), problem="")
    names, rows = encode_refresh(view)[1]["profiles"]
    told = {"outcome": "now", "sentence": "Starts now"} if outlook else None
    assert dict(zip(names, rows["p"], strict=True)) == {
        "slug": "p",
        "is_denied": False,
        "outlook": told,
        "summary": "4 CPUs",
        "fields": expected_fields,
    }
    assert rows["q"] == ("q", True, *rows["p"][2:])
    table = json.loads(json.dumps({"names": names, "rows": [*rows.values()]}))
    assert faults({"version": view.version, "profiles": table}, "refresh") == []


def test_profiles_are_shown_by_the_page_alone():
    view = build.add_profiles(VIEW, (ProfileView(slug="p", display_name="P"),), problem="")
    assert island_of(view) == island_of(VIEW)
