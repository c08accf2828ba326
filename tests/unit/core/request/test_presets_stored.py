"""Fixed presets: what a stored profile becomes, GPU types of entries, and images that are named."""

from __future__ import annotations

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image, ImageInput, Preset, PresetChoice, PresetVariant
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.selection import find_image, validate

COURSE = Preset(
    slug="course",
    display_name="Course",
    options={"gpu": "t4", "gpu_count": 4},
    choices={
        "image": PresetChoice(
            name="image",
            display_name="Image",
            entries={
                "plain": PresetVariant(slug="plain", display_name="Plain"),
                "other": PresetVariant(slug="other", display_name="Other", options={"gpu": "l4"}),
                "none": PresetVariant(slug="none", display_name="None", options={"gpu": None}),
            },
            custom_image=ImageInput(),
        )
    },
)
PROFILES = Catalog(
    images={
        "lab": Image(slug="lab", display_name="Lab", image="quay.io/a/lab:1"),
        "arm": Image(slug="arm", display_name="Arm", image="quay.io/a/arm:1", architectures=("arm64",)),
    },
    cpu=None,
    memory=None,
    gpus={
        "t4": GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=8),
        "l4": GPUType(slug="l4", display_name="L4", resource="nvidia.com/gpu", vendor="nvidia", max_count=8),
    },
    presets={"first": Preset(slug="first", display_name="First"), "course": COURSE},
    only_presets=True,
)


@pytest.mark.parametrize(
    ("stored", "options"),
    [
        pytest.param({"profile": "course"}, {"preset": "course"}, id="profile"),
        pytest.param(
            {"profile": "course", "image": "other"},
            {"preset": "course", "preset_choices": {"image": "other"}},
            id="choice",
        ),
        pytest.param(
            {"profile": "course", "image": "plain", "image--unlisted-choice": "quay.io/b/c:1"},
            {"preset": "course", "custom_image": "quay.io/b/c:1"},
            id="text",
        ),
    ],
)
def test_options_of_a_profile_start_the_preset_that_it_became(stored: object, options: object):
    assert validate(stored, PROFILES) == validate(options, PROFILES)


def test_options_of_a_profile_that_is_gone_are_refused():
    with pytest.raises(SelectionError) as refused:
        validate({"profile": "gone"}, PROFILES)
    assert [(each.field, each.code) for each in refused.value.problems] == [("preset", "unknown_choice")]


@pytest.mark.parametrize(
    ("entry", "gpus"),
    [
        pytest.param("plain", ("t4", 4), id="same"),
        pytest.param("other", ("l4", 1), id="other type"),
        pytest.param("none", (None, 0), id="no type"),
    ],
)
def test_an_entry_with_another_gpu_type_has_not_the_number_of_the_preset(entry: str, gpus: tuple[str | None, int]):
    selection = validate({"preset": "course", "preset_choices": {"image": entry}}, PROFILES)
    assert (selection.gpu, selection.gpu_count) == gpus


@pytest.mark.parametrize("nothing", [pytest.param(None, id="null"), pytest.param("", id="empty")])
def test_no_gpu_is_no_choice_in_a_preset_with_one(nothing: object):
    with pytest.raises(SelectionError) as refused:
        validate({"preset": "course", "gpu": nothing}, PROFILES)
    assert [(each.field, each.code) for each in refused.value.problems] == [("gpu", "conflict")]


def test_an_image_that_is_named_has_the_architectures_that_the_settings_know():
    selection = validate({"preset": "course", "custom_image": "quay.io/a/arm:1"}, PROFILES)
    assert find_image(selection, PROFILES).architectures == ("arm64",)
