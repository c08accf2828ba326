"""The data of a refresh of an open form: all of the page's data that may change, and the texts of the page's rows."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.form import build
from gpuspawner.core.form.refresh import REFRESHED_GPU_COLUMNS, encode_refresh, encode_refreshed_gpu
from gpuspawner.core.form.views import (
    GPUTypeView,
    PresetChoiceView,
    PresetEntryView,
    PresetImageView,
    PresetView,
    VerdictView,
)
from tests.unit.core.form.test_build import CATALOG, INVENTORY
from tests.unit.islands import build_view

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


ENTRIES = (PresetEntryView(slug="s", text="Small"), PresetEntryView(slug="l", text="Large", is_denied=True))


@pytest.mark.parametrize(
    ("choices", "expected_fields", "expected_entries"),
    [
        pytest.param((), {}, [], id="no choices"),
        pytest.param(
            (PresetChoiceView(field="preset:p:size", label="Size", entries=ENTRIES, picked="s"),),
            {"preset:p:size": "s"},
            [["preset:p:size", [["s", "Small", False], ["l", "Large", True]]]],
            id="list",
        ),
        pytest.param(
            (PresetChoiceView(field="preset:p:size", label="Size", entries=ENTRIES, picked="gone"),),
            {"preset:p:size": ""},
            [["preset:p:size", [["s", "Small", False], ["l", "Large", True]]]],
            id="an entry is picked that the list does not show",
        ),
        pytest.param(
            (
                PresetChoiceView(
                    field="preset:p:image",
                    label="Image",
                    entries=(),
                    picked="",
                    image=PresetImageView(field="preset-image:p:image", label="Image", text="quay.io/a:1"),
                ),
            ),
            {"preset-image:p:image": "quay.io/a:1"},
            [],
            id="text field",
        ),
    ],
)
def test_the_card_of_a_fixed_preset_is_described(choices: Any, expected_fields: Any, expected_entries: Any):
    outlook = VerdictView(outcome="now", sentence="Starts now")
    preset = PresetView(
        slug="p",
        display_name="P",
        description="",
        summary="4 CPUs",
        values={},
        outlook=outlook,
        is_fixed=True,
        choices=choices,
    )
    _, tables = encode_refresh(replace(build_view(CATALOG, Inventory()), presets=(preset,)))
    names, rows = tables["fixed_presets"]
    assert dict(zip(names, rows["p"], strict=True)) == {
        "slug": "p",
        "is_denied": False,
        "outlook": {"outcome": "now", "sentence": "Starts now"},
        "summary": "4 CPUs",
        "fields": expected_fields,
        "entries": expected_entries,
    }
