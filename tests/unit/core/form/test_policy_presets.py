"""The cards of presets: which are shown, in what order, and what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.policy_model import Access, Policy, Rule
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.build import LiveState
from gpuspawner.core.form.views import FormView, PresetView, VerdictView
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.core.form.test_fields_presets import FOR_STAFF, LAB, MIXED, ONLY, PRESETS, SIZES, saved
from tests.unit.core.policies import allowed, server
from tests.unit.islands import build_view, island_of, things

LARGE = {"preset": "lab", "preset_choices": {"size": "large", "image": "r"}}


def view(policy: Any = None, *, catalog: Any = ONLY, usage: Usage | None = None, **others: Any) -> FormView:
    allowance = allowed(policy, **{name: getattr(catalog, name) for name in ("presets", "only_presets")})
    allowance = allowance if usage is None else replace(allowance, usage=usage)
    return build_view(allowance.full_catalog, Inventory(), allowance=allowance, **others)


def card(slug: str, policy: Any = None, **others: Any) -> PresetView:
    return next(each for each in view(policy, **others).presets if each.slug == slug)


def entries(preset: PresetView, number: int = 0) -> dict[str, bool]:
    """Return the texts of a choice's entries, and whether each is denied."""
    return {each.text: each.is_denied for each in preset.choices[number].entries}


def test_a_card_has_its_lists_and_says_what_it_starts():
    lab = card("lab", options=saved(LARGE))
    assert lab.summary == "R · 1 CPU · 16 GiB RAM · no GPU · up to 8 hours"
    size, image = lab.choices
    assert (size.field, size.label, size.picked, size.image) == ("preset:lab:size", "Memory", "large", None)
    assert entries(lab) == {"4 GiB": False, "16 GiB": False, "With a GPU": False}
    assert entries(lab, 1) == {"Torch": False, "R": False, "Other…": False}
    assert image.image is not None
    assert (image.image.field, image.image.label, image.image.text) == ("preset-image:lab:image", "Your image", "")
    assert (lab.is_fixed, lab.is_last, lab.is_picked, lab.values) == (True, True, True, {})


def test_memory_that_is_no_round_number_is_rounded():
    odd = replace(LAB, options={"cpu": 1, "memory": 1951419879}, choices={})
    catalog = replace(ONLY, presets={"lab": odd})
    assert card("lab", catalog=catalog).summary == "Minimal · 1 CPU · 1.9 GiB RAM · no GPU · up to 8 hours"


def test_a_choice_without_entries_has_a_text_field_only():
    (choice,) = card("named").choices
    assert (choice.entries, choice.picked) == ((), "")
    assert choice.image is not None
    assert choice.image.label == "Image"


def test_the_description_of_an_entry_stands_beside_its_name():
    small = replace(SIZES.entries["small"], description="For exercises")
    sizes = replace(SIZES, entries={**SIZES.entries, "small": small})
    catalog = replace(ONLY, presets={"lab": replace(LAB, choices={"size": sizes})})
    assert "4 GiB: For exercises" in entries(card("lab", catalog=catalog))


@pytest.mark.parametrize(
    ("options", "slugs"),
    [(None, ["lab", "staff", "named"]), ({"preset": "staff"}, ["staff", "lab", "named"])],
    ids=["first visit", "staff last time"],
)
def test_the_last_start_comes_first(options: Any, slugs: list[str]):
    shown = view(options=options).presets
    assert [each.slug for each in shown] == slugs
    assert [each.slug for each in shown if each.is_last] == ([] if options is None else ["staff"])
    assert [each.slug for each in shown if each.is_picked] == slugs[:1]


def test_only_presets_means_no_other_field():
    found = view()
    assert (found.only_presets, found.images, found.vendors, found.choices) == (True, (), (), ())
    assert (found.cpu, found.memory, found.run_time, found.shared_memory) == (None, None, None, None)
    assert things(island_of(found)["presets"]) == []


def test_beside_fields_the_script_gets_plain_presets_only():
    found = view(catalog=MIXED)
    plain = [each.slug for each in found.presets if not each.is_fixed]
    assert [each["slug"] for each in things(island_of(found)["presets"])] == plain
    assert {each.slug for each in found.presets if each.is_fixed} == set(PRESETS)


def test_a_verdict_is_about_the_picked_entries_and_gives_way_to_a_refusal():
    live = LiveState(presets={"lab": Verdict(outcome=Outcome.NOW), "staff": Verdict(outcome=Outcome.NOW)})
    shown = {each.slug: each.outlook for each in view(FOR_STAFF, live=live).presets}
    assert shown["lab"] is not None
    assert shown["lab"].outcome == "now"
    assert shown["staff"] == VerdictView(outcome="never", sentence="You don't have access to the preset Staff.")


def test_a_user_who_may_name_no_image_gets_no_field_for_one():
    (_, image) = card("lab", Rule(custom_images=False)).choices
    assert (image.image, [each.slug for each in image.entries]) == (None, ["torch", "r"])
    assert [each.slug for each in view(Rule(custom_images=False)).presets] == ["lab", "staff", "named"]
    assert card("named", Rule(custom_images=False)).is_denied


def test_a_preset_for_others_is_denied_and_has_no_lists():
    policy = Policy(access={("preset", "lab"): Access(users=frozenset({"bob"}))})
    lab = card("lab", policy)
    assert (lab.is_denied, lab.choices, lab.is_picked) == (True, (), False)


@pytest.mark.parametrize(
    ("slug", "catalog"),
    [("plain", MIXED), ("staff", MIXED), ("named", MIXED), ("named", ONLY)],
    ids=["plain", "fixed", "text field", "text field, only presets"],
)
def test_a_preset_for_others_says_so_or_is_hidden(slug: str, catalog: Any):
    policy = Policy(access={("preset", slug): Access(users=frozenset({"bob"}))})
    name = catalog.presets[slug].display_name
    reason = VerdictView(outcome="never", sentence=f"You don't have access to the preset {name}.")
    shown = card(slug, policy, catalog=catalog)
    assert (shown.is_denied, shown.outlook) == (True, reason)
    hidden = view(replace(policy, hide=True), catalog=catalog)
    assert [each.slug for each in hidden.presets] == [
        each.slug for each in view(catalog=catalog).presets if each.slug != slug
    ]


def test_entries_for_others_are_disabled_or_left_out():
    lab = card("lab", FOR_STAFF)
    assert entries(lab) == {"4 GiB": False, "16 GiB (not available to you)": True, "With a GPU": False}
    assert lab.choices[0].reason == "You don't have access to the choice 16 GiB."
    hidden = replace(FOR_STAFF, hide=True)
    assert entries(card("lab", hidden)) == {"4 GiB": False, "With a GPU": False}
    assert [each.slug for each in view(hidden).presets] == ["lab", "named"]


def test_an_entry_beyond_the_limits_says_why_and_leaves_the_others():
    lab = card("lab", Rule(gpus={}))
    assert entries(lab) == {"4 GiB": False, "16 GiB": False, "With a GPU (not available to you)": True}
    assert lab.choices[0].reason == "You don't have access to T4."
    assert not lab.is_denied


def test_a_card_whose_entries_are_refused_can_be_started_with_others():
    policy = Rule(max_gpus=1)
    usage = Usage(own=(server("t4"),))
    lab = card("lab", policy, usage=usage, options=saved({"preset": "lab", "preset_choices": {"size": "gpu"}}))
    assert not lab.is_denied
    assert lab.outlook is not None
    assert lab.outlook.outcome == "never"


def test_an_entry_that_is_not_valid_is_disabled_without_a_reason():
    gone = replace(SIZES.entries["gpu"], options={"gpu": "gone", "gpu_count": 1})
    sizes = replace(SIZES, entries={**SIZES.entries, "gpu": gone})
    catalog = replace(ONLY, presets={"lab": replace(LAB, choices={"size": sizes})})
    lab = card("lab", Rule(max_gpus=9), catalog=catalog)
    assert entries(lab)["With a GPU (not available to you)"]
    assert lab.choices[0].reason == ""


def test_a_user_who_may_start_nothing_reads_so_once():
    allowance = allowed(Policy(groups={"a": Rule()}), presets=PRESETS, only_presets=True)
    unknown = replace(allowance, person=replace(allowance.person, groups=None))
    blocked = build_view(unknown.full_catalog, Inventory(), allowance=unknown)
    assert [(each.is_denied, each.outlook, each.choices) for each in blocked.presets] == [(True, None, ())] * 3


@pytest.mark.parametrize("catalog", [ONLY, MIXED], ids=["only presets", "beside fields"])
def test_a_refused_start_is_said_at_its_card(catalog: Any):
    problems = (
        Problem(field="custom_image", code="not_a_reference", message="No image."),
        Problem(field="cpu", code="cpu_not_allowed", message="Too much."),
    )
    typed = {"start_preset": "lab", "preset:lab:size": "large"}
    found = view(catalog=catalog, typed=typed, problems=problems)
    assert found.errors == {"start_preset": "No image. Too much."}
    assert [(each.slug, each.error) for each in found.presets if each.error] == [("lab", "No image. Too much.")]
    assert next(each for each in found.presets if each.slug == "lab").choices[0].picked == "large"
    assert not found.is_open or catalog.only_presets


def test_a_wrong_field_is_no_error_of_a_card():
    problems = (Problem(field="cpu", code="not_a_number", message="Odd."),)
    found = view(catalog=MIXED, typed={"cpu": "x"}, problems=problems)
    assert found.errors == {"cpu": "Odd."}
    assert [each.error for each in found.presets if each.error] == []
