"""The fields in fixed presets: what a card shows when the form opens, and what it would start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import ImageInput, Preset, PresetChoice, PresetVariant
from gpuspawner.core.catalog.policy_model import Access, AmountRange, Policy, Rule
from gpuspawner.core.form.fields import FilledFields, fill_fields
from gpuspawner.core.request.selection import build_options, validate
from tests.unit.core.policies import CATALOG, GIB, allowed

SIZES = PresetChoice(
    name="size",
    display_name="Memory",
    entries={
        "small": PresetVariant(slug="small", display_name="4 GiB", options={"memory": "4G"}),
        "large": PresetVariant(slug="large", display_name="16 GiB", options={"memory": "16G"}),
        "gpu": PresetVariant(slug="gpu", display_name="With a GPU", options={"gpu": "t4", "gpu_count": 1}),
    },
)
IMAGES = PresetChoice(
    name="image",
    display_name="Image",
    entries={
        slug: PresetVariant(slug=slug, display_name=slug.title(), options={"image": slug}) for slug in ("torch", "r")
    },
    custom_image=ImageInput(label="Your image", pattern="^quay.io/", message="It must come from quay.io."),
)
LAB = Preset(
    slug="lab", display_name="Lab", options={"cpu": 1}, choices={"size": SIZES, "image": IMAGES}, overrides={"uid": 1}
)
STAFF = Preset(slug="staff", display_name="Staff", options={"cpu": 2, "memory": "8G"}, overrides={"uid": 2})
NAMED = Preset(
    slug="named",
    display_name="Named",
    choices={"image": replace(IMAGES, entries={}, custom_image=ImageInput())},
)
PRESETS = {each.slug: each for each in (LAB, STAFF, NAMED)}
MIXED = replace(CATALOG, presets={**CATALOG.presets, **PRESETS})
ONLY = replace(CATALOG, presets=PRESETS, only_presets=True)
FOR_STAFF = Policy(
    access={("preset", "staff"): Access(users=frozenset({"bob"})), ("preset", "lab", "size", "large"): Access()}
)


def filled(options: Any = None, *, typed: Any = None, catalog: Any = ONLY, policy: Any = None) -> FilledFields:
    allowance = allowed(policy, **{name: getattr(catalog, name) for name in ("presets", "only_presets")})
    return fill_fields(allowance.full_catalog, options=options, typed=typed, allowance=allowance)


def saved(options: dict[str, Any]) -> dict[str, Any]:
    """Return user options as the hub stores them after a start."""
    return build_options(validate(options, ONLY), ONLY)


def test_a_first_visit_shows_the_first_entries_and_what_they_start():
    found = filled()
    lab = found.presets["lab"]
    assert lab.entries == {"size": "small", "image": "torch"}
    assert lab.images == {"image": ""}
    assert lab.selection == validate({"preset": "lab"}, ONLY)
    assert lab.refusal == ""
    assert (found.picked_preset, found.last_preset, found.selection) == ("lab", "", None)


def test_the_default_preset_is_the_current_one():
    catalog = replace(ONLY, presets={**PRESETS, "staff": replace(STAFF, is_default=True)})
    assert filled(catalog=catalog).picked_preset == "staff"
    assert filled(catalog=catalog, policy=FOR_STAFF).picked_preset == "lab"


def test_beside_fields_no_preset_is_the_current_one():
    found = filled(catalog=MIXED)
    assert (found.picked_preset, list(found.presets)) == ("", ["lab", "staff", "named"])
    assert found.selection == validate(next(iter(CATALOG.presets.values())).options, MIXED)


def test_a_card_finds_the_entry_that_is_left_among_many_combinations():
    first = replace(SIZES, name="first", entries={slug: SIZES.entries[slug] for slug in ("gpu", "small")})
    others = {
        name: replace(SIZES, name=name, entries={slug: PresetVariant(slug=slug, display_name=slug) for slug in "abcd"})
        for name in ("b", "c", "d", "e")
    }
    many = replace(ONLY, presets={"lab": replace(LAB, choices={"first": first, **others})})
    lab = filled(catalog=many, policy=Rule(gpus={})).presets["lab"]
    assert lab.entries == {"first": "small", "b": "a", "c": "a", "d": "a", "e": "a"}


def test_plain_presets_have_no_fields():
    assert fill_fields(CATALOG).presets == {}


@pytest.mark.parametrize("catalog", [ONLY, MIXED], ids=["only presets", "beside fields"])
def test_the_last_start_is_restored(catalog: Any):
    options = saved({"preset": "lab", "preset_choices": {"size": "large", "image": "r"}})
    found = filled(options, catalog=catalog)
    assert found.presets["lab"].entries == {"size": "large", "image": "r"}
    assert (found.picked_preset, found.last_preset, found.notices) == ("lab", "lab", {})
    assert found.values == filled(catalog=catalog).values


def test_the_image_that_was_named_is_restored():
    options = saved({"preset": "lab", "custom_image": "quay.io/a/b:1"})
    lab = filled(options).presets["lab"]
    assert (lab.entries["image"], lab.images["image"]) == ("", "quay.io/a/b:1")
    assert lab.selection == validate(options, ONLY)


@pytest.mark.parametrize(
    ("options", "notice"),
    [
        ({"preset": "gone"}, {"preset": "The preset you had last time (gone) is no longer offered."}),
        ({"preset": ["x"]}, {"preset": "The preset you had last time is no longer offered."}),
        (
            {"preset": "lab", "preset_choices": {"size": "huge"}},
            {"preset_choices": "Memory: what you had last time (huge) is no longer offered: 4 GiB is selected."},
        ),
        ({"image": "torch", "cpu": 1}, {"": "Your last choice is no longer offered. Pick a preset."}),
        ({"profile": "old"}, {"preset": "The preset you had last time (old) is no longer offered."}),
        ({"preset": "lab", "preset_choices": "size:large"}, {}),
        ({"preset": "lab", "preset_choices": {"size": ["large"]}, "custom_image": 7}, None),
        ({}, {}),
        (None, {}),
        ("lab", {}),
    ],
    ids=["preset", "no slug", "entry", "fields", "KubeSpawner", "text", "hostile", "empty", "none", "no mapping"],
)
def test_gone_entries_get_a_notice(options: Any, notice: Any):
    found = filled(options)
    assert notice is None or found.notices == notice
    assert found.presets["lab"].selection is not None


def test_beside_fields_a_preset_that_is_gone_is_said_and_its_image_is_no_field():
    found = filled({"v": 1, "preset": "gone", "custom_image": "quay.io/a/b:1"}, catalog=MIXED)
    assert found.notices == {"preset": "The preset you had last time (gone) is no longer offered."}
    assert found.values["custom_image"] == ""


def test_sent_fields_come_back_with_their_preset():
    typed = {"start_preset": "lab", "preset:lab:size": "large", "preset:lab:image": "", "preset-image:lab:image": "x y"}
    found = filled(typed=typed)
    lab = found.presets["lab"]
    assert (lab.entries, lab.images) == ({"size": "large", "image": ""}, {"image": "x y"})
    assert (lab.selection, lab.refusal) == (None, "It must come from quay.io.")
    assert (found.picked_preset, found.is_preset_sent) == ("lab", True)


def test_a_text_field_that_waits_for_an_image_is_no_refusal():
    named = filled().presets["named"]
    assert (named.entries, named.is_unfinished, named.selection, named.refusal) == ({"image": ""}, True, None, "")


def test_a_link_picks_a_preset_and_its_entries():
    found = filled(typed={"preset": "lab", "preset_choices": "size:large,image:r"}, catalog=MIXED)
    assert found.presets["lab"].entries == {"size": "large", "image": "r"}
    assert (found.picked_preset, found.values) == ("lab", filled(catalog=MIXED).values)


def test_a_link_may_name_an_image_for_a_preset():
    found = filled(typed={"preset": "lab", "custom_image": "quay.io/a/b:1"}, catalog=MIXED)
    assert found.presets["lab"].images == {"image": "quay.io/a/b:1"}
    assert found.values["custom_image"] == ""


def test_entries_for_others_are_not_picked():
    large = {"preset": "lab", "preset_choices": {"size": "large"}}
    lab = filled(large, policy=FOR_STAFF).presets["lab"]
    assert lab.entries["size"] == "small"
    catalog = replace(ONLY, presets={"lab": LAB})
    first = Policy(access={("preset", "lab", "size", "small"): Access()})
    assert filled(catalog=catalog, policy=first).presets["lab"].entries["size"] == "large"


def test_a_preset_for_others_says_so():
    found = filled(policy=FOR_STAFF)
    assert found.presets["staff"].refusal == "You don't have access to the preset Staff."


def test_limits_refuse_the_picked_entries_only():
    rule = Rule(memory=AmountRange(max=4 * GIB))
    large = {"preset": "lab", "preset_choices": {"size": "large"}}
    assert filled(policy=rule).presets["lab"].refusal == ""
    assert filled(large, policy=rule).presets["lab"].refusal == "You may not have more than 4 GiB of memory."


def test_a_first_entry_that_is_not_offered_any_more_gives_way():
    catalog = replace(
        ONLY,
        presets={
            "lab": replace(
                LAB,
                choices={
                    "image": replace(
                        IMAGES,
                        entries={
                            "gone": PresetVariant(slug="gone", display_name="Gone", options={"image": "gone"}),
                            "r": PresetVariant(slug="r", display_name="R", options={"image": "r"}),
                        },
                    )
                },
            )
        },
    )
    assert filled(catalog=catalog).presets["lab"].entries == {"image": "r"}


def test_a_preset_without_a_valid_choice_is_left_out():
    gone = Preset(slug="gone", display_name="Gone", options={"gpu": "gone", "gpu_count": 1}, overrides={"uid": 1})
    found = filled(catalog=replace(ONLY, presets={"gone": gone}))
    assert (found.presets, found.picked_preset) == ({}, "")


def test_without_any_preset_there_is_a_form_all_the_same():
    found = filled(catalog=replace(ONLY, presets={}))
    assert (set(found.values.values()), found.selection, found.picked_preset) == ({""}, None, "")
