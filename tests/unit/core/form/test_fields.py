from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Bounds, Catalog, CustomImages, GPUType, Image, Preset
from gpuspawner.core.form.fields import format_field_values, restore_fields, try_validate
from gpuspawner.core.request.field_definitions import FORM_FIELDS, Priority
from gpuspawner.core.request.selection import Selection, build_options, validate
from tests.unit.hostile import JSON

GIB = 1 << 30
HOUR_S = 60 * 60
CATALOG = Catalog(
    images={
        "pytorch": Image(slug="pytorch", display_name="PyTorch", image="pytorch:1", vendors=("nvidia",)),
        "plain": Image(slug="plain", display_name="Plain Python", image="plain:1"),
    },
    cpu=Bounds(min=500, max=32_000, step=500, default=2000),
    memory=Bounds(min=GIB // 2, max=256 * GIB, step=GIB // 2, default=8 * GIB),
    gpus={
        "t4": GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4),
        "mi210": GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd", max_count=1),
    },
    presets={
        "train": Preset(
            slug="train", display_name="T", options={"image": "plain", "cpu": 8, "gpu": "t4", "gpu_count": 2}
        )
    },
    custom_images=CustomImages(registries=("quay.io",)),
    run_time=Bounds(min=900, max=24 * HOUR_S, step=900, default=8 * HOUR_S),
    shared_memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=GIB),
    choices={
        "priority": {
            "normal": Priority(slug="normal", display_name="Normal", priority_class="site-normal", value=100),
            "low": Priority(slug="low", display_name="Low", priority_class="site-low", value=-10),
        }
    },
)
OWN = "quay.io/acme/own:1"
DEFAULTS = {
    "image": "pytorch",
    "custom_image": "",
    "cpu": "2",
    "memory": "8",
    "gpu": "",
    "gpu_count": "",
    "run_time": "8h",
    "shared_memory": "",
    "priority": "normal",
}


@pytest.mark.parametrize("nothing", [None, {}, {"profile": "large"}, {"something": ["else"]}])
def test_without_a_saved_choice_the_defaults_stand_there(nothing: dict[str, object] | None):
    assert restore_fields(nothing, CATALOG) == (DEFAULTS, {})


def test_fields_are_restored_one_by_one():
    saved = {"image": "gone", "cpu": 64, "memory": "512G", "gpu": "t4", "gpu_count": 9, "run_time": "2h"}
    assert restore_fields(saved, CATALOG) == (
        {**DEFAULTS, "gpu": "t4", "gpu_count": "1", "run_time": "2h"},
        {
            "image": "The image you had last time (gone) is no longer offered: PyTorch is selected.",
            "cpu": "Your last number of CPUs (64) is no longer offered: 2 is filled in.",
            "memory": "Your last amount of memory (512G) is no longer offered: 8 GiB is filled in.",
            "gpu_count": "Your last number of GPUs (9) is no longer offered: 1 is filled in.",
        },
    )


@pytest.mark.parametrize("custom_images", [None, CustomImages(registries=("ghcr.io",))])
def test_an_image_that_may_not_be_named_any_more_falls_back_to_the_default(custom_images: CustomImages | None):
    values, notices = restore_fields({"custom_image": OWN}, replace(CATALOG, custom_images=custom_images))
    assert values == DEFAULTS
    assert notices == {"image": f"The image you had last time ({OWN}) is no longer offered: PyTorch is selected."}


def test_an_image_that_was_named_goes_before_that_of_a_preset_and_one_that_is_gone():
    values, notices = restore_fields({"preset": "train", "custom_image": OWN}, CATALOG)
    assert (values["image"], values["custom_image"], values["cpu"], notices) == ("", OWN, "8", {})
    assert restore_fields({"image": "gone", "custom_image": OWN}, CATALOG) == (
        {**DEFAULTS, "image": "", "custom_image": OWN},
        {},
    )


def test_a_gpu_type_that_is_gone_leaves_no_gpu_and_no_count():
    values, notices = restore_fields({"gpu": "h100", "gpu_count": 2}, CATALOG)
    assert values == DEFAULTS
    assert notices == {"gpu": "The GPU type you had last time (h100) is no longer offered: no GPU is selected."}


@pytest.mark.parametrize("saved", ["36h", "20m", "", "x"])
def test_a_run_time_that_is_gone_is_reported_with_what_takes_its_place(saved: str):
    values, notices = restore_fields({"run_time": saved, "cpu": 4}, CATALOG)
    assert values == {**DEFAULTS, "cpu": "4"}
    assert notices == {"run_time": f"Your last run time ({saved}) is no longer offered: 8h is filled in."}


@pytest.mark.parametrize("saved", ["128G", "1.5G", "x", "9G"])
def test_shared_memory_that_is_gone_or_has_no_room_is_left_empty(saved: str):
    values, notices = restore_fields({"shared_memory": saved, "cpu": 4}, CATALOG)
    assert values == {**DEFAULTS, "cpu": "4"}
    gone = f"Your last amount of shared memory ({saved}) is no longer offered: the field is left empty."
    assert notices == {"shared_memory": gone}


def test_shared_memory_goes_where_the_memory_that_it_was_a_part_of_is_gone():
    values, notices = restore_fields({"memory": "512G", "shared_memory": "64G"}, CATALOG)
    assert (values["memory"], values["shared_memory"]) == ("8", "")
    assert list(notices) == ["memory", "shared_memory"]


def test_shared_memory_of_a_preset_goes_where_less_memory_was_asked_for_beside_it():
    options = {"memory": "16G", "shared_memory": "16G"}
    catalog = replace(CATALOG, presets={"big": Preset(slug="big", display_name="B", options=options)})
    values, notices = restore_fields({"preset": "big", "memory": "8G"}, catalog)
    assert (values["memory"], values["shared_memory"], list(notices)) == ("8", "", ["shared_memory"])
    assert restore_fields({"preset": "big"}, catalog)[0]["shared_memory"] == "16"


@pytest.mark.parametrize(("saved", "quoted"), [("high", " (high)"), (["low"], "")])
def test_a_priority_that_is_gone_falls_back_to_the_usual_one(saved: object, quoted: str):
    values, notices = restore_fields({"priority": saved, "cpu": 4}, CATALOG)
    assert values == {**DEFAULTS, "cpu": "4"}
    gone = f"The priority you had last time{quoted} is no longer offered: Normal is selected."
    assert notices == {"priority": gone}


def test_image_and_gpu_that_no_longer_fit_are_both_shown_for_the_person_to_decide():
    values, notices = restore_fields({"image": "pytorch", "gpu": "mi210"}, CATALOG)
    assert (values["image"], values["gpu"], notices) == ("pytorch", "mi210", {})


def test_a_preset_that_is_gone_leaves_the_fields_saved_beside_it():
    assert restore_fields({"preset": "gone", "cpu": 4}, CATALOG) == ({**DEFAULTS, "cpu": "4"}, {})


def test_what_another_version_wrote_is_not_guessed_at():
    values, notices = restore_fields({"v": 2, "image": "plain"}, CATALOG)
    assert values == DEFAULTS
    assert notices == {"": "Your last choice was saved by another version and could not be read."}


def test_a_field_that_the_form_does_not_show_has_no_notice():
    catalog = replace(CATALOG, cpu=None, memory=None, run_time=None, shared_memory=None, choices={})
    saved = {"cpu": 4, "memory": "4G", "run_time": "8h", "shared_memory": "1G", "priority": "low"}
    values, notices = restore_fields(saved, catalog)
    assert ([values[name] for name in saved], notices) == ([""] * 5, {})


def test_a_long_saved_text_is_cut_in_its_notice():
    _, notices = restore_fields({"image": "x" * 500}, CATALOG)
    assert f"({'x' * 40}…)" in notices["image"]


@pytest.mark.parametrize("junk", [True, [1], {"a": 1}, 10**6000], ids=["bool", "list", "object", "huge"])
def test_a_value_that_no_user_can_have_picked_is_not_quoted(junk: object):
    _, notices = restore_fields({"cpu": junk}, CATALOG)
    assert notices == {"cpu": "Your last number of CPUs is no longer offered: 2 is filled in."}


OPTIONS = st.dictionaries(st.sampled_from(["v", "preset", *FORM_FIELDS]) | st.text(max_size=5), JSON, max_size=7)


@given(JSON | OPTIONS)
def test_whatever_is_saved_the_form_opens_with_values_that_can_be_started(saved: Any):
    values, notices = restore_fields(saved, CATALOG)
    assert set(values) == set(FORM_FIELDS)
    assert set(notices) <= {"", *FORM_FIELDS}
    image = {"custom_image": values["custom_image"]} if values["custom_image"] else {"image": values["image"]}
    assert try_validate(image, CATALOG) is not None
    assert (values["image"] in CATALOG.images) == (values["custom_image"] == "")
    assert values["gpu"] in {"", *CATALOG.gpus}
    amounts = {"cpu": values["cpu"], "memory": f"{values['memory']}G", "run_time": values["run_time"]}
    assert values["priority"] in CATALOG.choices["priority"]
    if values["shared_memory"]:
        amounts["shared_memory"] = f"{values['shared_memory']}G"
    assert try_validate(amounts, CATALOG) is not None


SELECTIONS = st.builds(
    lambda own, **values: Selection(image="" if own else "plain", custom_image=own, **values),
    own=st.sampled_from([None, OWN]),
    cpu_millis=st.integers(1, 64).map(lambda steps: steps * 500),
    memory_bytes=st.integers(1, 512).map(lambda steps: steps * GIB // 2),
    gpu=st.just("t4"),
    gpu_count=st.integers(1, 4),
    run_time_s=st.integers(1, 96).map(lambda steps: steps * 900),
    choices=st.fixed_dictionaries({"priority": st.sampled_from(["normal", "low"])}),
)


@given(SELECTIONS)
def test_a_valid_choice_comes_back_whole(selection: Selection):
    assert validate(build_options(selection, CATALOG), CATALOG) == selection
    assert restore_fields(build_options(selection, CATALOG), CATALOG) == (format_field_values(selection), {})
    shared = replace(selection, memory_bytes=8 * GIB, shared_memory_bytes=selection.gpu_count * GIB)
    assert restore_fields(build_options(shared, CATALOG), CATALOG) == (format_field_values(shared), {})


CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "preset": st.sampled_from([None, "train"]),
        "image": st.sampled_from([None, "", "plain", "pytorch"]),
        "custom_image": st.sampled_from([None, "", OWN, "python"]),
        "cpu": st.sampled_from([None, 4]),
        "memory": st.sampled_from([None, "16G"]),
        "gpu": st.sampled_from([None, "", "t4", "mi210"]),
        "gpu_count": st.sampled_from([None, 0, 1, 3]),
        "run_time": st.sampled_from([None, "90m", "1d"]),
        "shared_memory": st.sampled_from([None, "", "1G", "16G"]),
        "priority": st.sampled_from([None, "", "normal", "low"]),
    },
)


@given(CHOICES)
def test_the_form_shows_what_a_start_with_the_same_options_would_take(options: dict[str, object]):
    selection = try_validate(options, CATALOG)
    assume(selection is not None)
    assert restore_fields(options, CATALOG) == (selection and format_field_values(selection), {})
