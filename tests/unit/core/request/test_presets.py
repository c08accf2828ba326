"""A fixed preset gives exactly what it says: a user picks entries of its choices, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.image_reference import MAX_REFERENCE_LENGTH
from gpuspawner.core.catalog.model import (
    NO_LIMIT,
    Bounds,
    Catalog,
    CustomImages,
    GPUType,
    Image,
    ImageInput,
    OwnAmount,
    OwnResources,
    Preset,
    PresetChoice,
    PresetVariant,
)
from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.pod_requirements import PodRequirements, place
from gpuspawner.core.request.presets import resolve_preset
from gpuspawner.core.request.selection import (
    Selection,
    build_options,
    find_invalid_presets,
    select_usable_presets,
    summarize_selection,
    validate,
)

GIB = 1 << 30
OWN = "quay.io/acme/own:1"


def choice(name: str, *entries: PresetVariant, custom_image: ImageInput | None = None) -> PresetChoice:
    return PresetChoice(
        name=name,
        display_name=name.title(),
        entries={each.slug: each for each in entries},
        custom_image=custom_image,
    )


def entry(slug: str, overrides: Mapping[str, Any] | None = None, **options: Any) -> PresetVariant:
    return PresetVariant(slug=slug, display_name=slug.upper(), options=options, overrides=overrides or {})


def preset(
    slug: str,
    *choices: PresetChoice,
    overrides: Mapping[str, Any] | None = None,
    is_default: bool = False,
    **options: Any,
) -> Preset:
    return Preset(
        slug=slug,
        display_name=slug.title(),
        options=options,
        overrides=overrides or {},
        choices={each.name: each for each in choices},
        is_default=is_default,
    )


SIZE = choice(
    "size",
    entry("small", memory="4G"),
    entry("large", {"node_selector": {"size": "large"}, "start_timeout": 900}, memory="600G", memory_guarantee="300G"),
)
IMAGE = choice(
    "image",
    entry("torch", image="torch"),
    entry("r", image="r"),
    custom_image=ImageInput(pattern=r"^acme/.+:.+$", overrides={"working_dir": "/own"}),
)
PRESETS = {
    each.slug: each
    for each in (
        preset("plain", cpu=4, image="r"),
        preset("free", cpu="unlimited", cpu_guarantee=0.5, memory="unlimited"),
        preset("sized", SIZE, cpu=0.124, overrides={"environment": {"A": "b"}, "start_timeout": 60}),
        preset("pictured", IMAGE, SIZE, gpu="t4", gpu_count=2),
        preset("named", choice("image", custom_image=ImageInput(message="Name one of ours.", pattern="^quay"))),
    )
}
CATALOG = Catalog(
    images={
        "torch": Image(slug="torch", display_name="Torch", image="torch:1", vendors=("nvidia",)),
        "r": Image(slug="r", display_name="R", image="r:1", overrides={"default_url": "/rstudio"}),
    },
    cpu=Bounds(min=500, max=16_000, step=500, default=2000, guarantee=0.5),
    memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=8 * GIB),
    gpus={
        "t4": GPUType(
            slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4, overrides={"uid": 0}
        ),
        "mi210": GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd"),
    },
    presets=PRESETS,
    default_gpus=(("t4", 1),),
)
ONLY_PRESETS = replace(CATALOG, only_presets=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def with_presets(*presets: Preset, **changed: Any) -> Catalog:
    return replace(CATALOG, presets={each.slug: each for each in presets}, **changed)


def codes(options: object, catalog: Catalog = CATALOG) -> dict[str, str]:
    with pytest.raises(SelectionError) as caught:
        validate(options, catalog)
    return {problem.field: problem.code for problem in caught.value.problems}


def message(options: object, catalog: Catalog = CATALOG) -> str:
    with pytest.raises(SelectionError) as caught:
        validate(options, catalog)
    (problem,) = caught.value.problems
    return problem.message


def placed(options: object, catalog: Catalog = CATALOG) -> PodRequirements:
    return place(validate(options, catalog), catalog)


@pytest.mark.parametrize(
    ("slug", "is_fixed"), [("plain", False), ("free", True), ("sized", True), ("pictured", True), ("named", True)]
)
def test_a_preset_is_fixed_if_it_sets_more_than_the_fields_can(slug: str, is_fixed: bool):
    assert (CATALOG.is_fixed(slug), ONLY_PRESETS.is_fixed(slug)) == (is_fixed, True)


@pytest.mark.parametrize(
    ("options", "is_fixed"),
    [
        pytest.param({"image": "unlimited"}, False, id="an image of that name"),
        pytest.param({"cpu": "unlimited"}, True, id="no limit of CPU"),
        pytest.param({"memory": "unlimited"}, True, id="no limit of memory"),
        pytest.param({"memory_guarantee": "1G"}, True, id="a guarantee"),
        pytest.param({"run_time": "8h", "cpu": 4, "gpu": None}, False, id="fields"),
    ],
)
def test_only_amounts_are_unlimited(options: dict[str, Any], is_fixed: bool):
    assert preset("p", **options).is_fixed is is_fixed


def test_an_image_named_unlimited_is_an_image():
    images = {"unlimited": Image(slug="unlimited", display_name="", image="x")}
    catalog = with_presets(preset("p", image="unlimited", cpu="unlimited"), images=images)
    assert validate({"preset": "p"}, catalog).image == "unlimited"


def test_a_fixed_preset_gives_its_amounts_whatever_the_form_offers():
    found = validate({"preset": "sized", "preset_choices": {"size": "large"}}, CATALOG)
    assert found == Selection(
        image="torch",
        cpu_millis=124,
        memory_bytes=600 * GIB,
        memory_request_bytes=300 * GIB,
        preset="sized",
        preset_choices={"size": "large"},
    )


def test_amounts_that_it_leaves_out_are_the_forms_defaults_and_it_has_no_default_gpu():
    found = validate({"preset": "pictured"}, CATALOG)
    assert (found.cpu_millis, found.memory_bytes, found.gpu, found.gpu_count) == (2000, 4 * GIB, "t4", 2)
    assert [validate({"preset": slug}, CATALOG).gpu for slug in ("plain", "free")] == ["t4", None]


def test_an_unlimited_amount_has_no_limit_in_the_pod():
    pod = placed({"preset": "free"})
    assert (pod.cpu_limit_millis, pod.cpu_request_millis) == (NO_LIMIT, 500)
    # Without a guarantee, the pod requests what KubeSpawner's own traits say.
    assert (pod.memory_limit_bytes, pod.memory_request_bytes) == (NO_LIMIT, None)


@pytest.mark.parametrize(
    ("options", "limit", "request_"),
    [
        pytest.param({"cpu": 4}, 4000, 2000, id="the form's part of the limit"),
        pytest.param({"cpu": 4, "cpu_guarantee": 0.1}, 4000, 100, id="a guarantee"),
        pytest.param({"cpu": 4, "cpu_guarantee": 0}, 4000, 0, id="a guarantee of nothing"),
        pytest.param({"cpu": 99, "cpu_guarantee": 98}, 99_000, 98_000, id="above the form's bounds"),
    ],
)
def test_a_guarantee_is_an_amount(options: dict[str, Any], limit: int, request_: int):
    pod = placed({"preset": "p"}, with_presets(preset("p", overrides={"uid": 1}, **options)))
    assert (pod.cpu_limit_millis, pod.cpu_request_millis) == (limit, request_)


@pytest.mark.parametrize(
    ("options", "own", "expected"),
    [
        pytest.param({"cpu": 1, "cpu_guarantee": 2}, OwnAmount(), "1 CPU", id="above its own limit"),
        pytest.param({"cpu_guarantee": 2}, OwnAmount(limit=1000), "1 CPU", id="above KubeSpawner's limit"),
    ],
)
def test_a_pod_cannot_reserve_more_than_its_limit(options: dict[str, Any], own: OwnAmount, expected: str):
    catalog = with_presets(preset("p", **options), cpu=None, own=OwnResources(cpu=own))
    assert message({"preset": "p"}, catalog) == f"CPU: the preset reserves 2 CPUs, more than its limit of {expected}."


def test_a_guarantee_alone_keeps_the_limit_of_kubespawner():
    catalog = with_presets(preset("p", cpu_guarantee=0.5), cpu=None, own=OwnResources(cpu=OwnAmount(limit=1000)))
    pod = placed({"preset": "p"}, catalog)
    assert (pod.cpu_limit_millis, pod.cpu_request_millis) == (None, 500)


def test_run_time_shared_memory_and_priority_stay_fields_with_bounds():
    catalog = with_presets(
        preset("p", memory="unlimited", run_time="2h", shared_memory="16G", priority="low"),
        run_time=Bounds(min=900, max=24 * 3600, step=900, default=8 * 3600),
        shared_memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=GIB),
        choices={
            "priority": {
                slug: Priority(slug=slug, display_name=slug, priority_class=slug, value=1) for slug in ("normal", "low")
            }
        },
    )
    found = validate({"preset": "p"}, catalog)
    assert (found.run_time_s, found.shared_memory_bytes, found.choices) == (7200, 16 * GIB, {"priority": "low"})
    assert placed({"preset": "p"}, catalog).shm_bytes == 16 * GIB
    assert codes({"preset": "p"}, replace(catalog, shared_memory=None)) == {"shared_memory": "unknown_field"}


def test_a_fraction_of_no_limit_is_no_shared_memory():
    gpus = {"t4": replace(CATALOG.gpus["t4"], shm=0.5)}
    catalog = with_presets(
        preset("all", gpu="t4", memory="unlimited"), preset("some", gpu="t4", memory="8G", cpu_guarantee=0.1), gpus=gpus
    )
    assert [placed({"preset": slug}, catalog).shm_bytes for slug in ("all", "some")] == [None, 4 * GIB]


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        pytest.param({"preset": "free"}, (), id="none"),
        pytest.param({"image": "r", "gpu": None}, ({"default_url": "/rstudio"},), id="an image alone"),
        pytest.param(
            {"preset": "pictured", "preset_choices": {"size": "large", "image": "r"}},
            ({"default_url": "/rstudio"}, {"uid": 0}, SIZE.entries["large"].overrides),
            id="image, GPU type, entry",
        ),
        pytest.param(
            {"preset": "pictured", "preset_choices": {"size": "large"}, "custom_image": "acme/own:1"},
            ({"uid": 0}, {"working_dir": "/own"}, SIZE.entries["large"].overrides),
            id="GPU type, an image that is named, entry",
        ),
        pytest.param(
            {"preset": "sized", "preset_choices": {"size": "large"}},
            (PRESETS["sized"].overrides, SIZE.entries["large"].overrides),
            id="preset, entry",
        ),
    ],
)
def test_overrides_lie_in_layers(options: dict[str, Any], layers: tuple[Any, ...]):
    assert placed(options).overrides == layers


@pytest.mark.parametrize(
    ("chosen", "seconds"), [("small", 60), ("large", 900)], ids=["of the preset", "of the entry on top"]
)
def test_the_hub_waits_as_long_as_the_override_says(chosen: str, seconds: int):
    assert placed({"preset": "sized", "preset_choices": {"size": chosen}}).start_timeout_s == seconds


def test_a_start_timeout_of_the_override_wins_over_that_of_the_gpu_type():
    gpus = {"t4": replace(CATALOG.gpus["t4"], start_timeout_s=1200)}
    catalog = with_presets(preset("p", gpu="t4", overrides={"start_timeout": 30}), preset("q", gpu="t4"), gpus=gpus)
    assert [placed({"preset": slug}, catalog).start_timeout_s for slug in ("p", "q")] == [30, 1200]


@pytest.mark.parametrize(
    ("of_image", "of_type", "seconds"),
    [(60, None, 900), (60, 1000, 1000), (1200, 1000, 1200), (None, 60, 900)],
    ids=["short image", "type over image", "long image", "short type"],
)
def test_a_start_timeout_of_the_image_or_type_never_shortens_the_wait(
    of_image: int | None, of_type: int | None, seconds: int
):
    overrides = [{} if each is None else {"start_timeout": each} for each in (of_image, of_type)]
    gpu = replace(CATALOG.gpus["t4"], start_timeout_s=900, overrides=overrides[1])
    image = replace(next(iter(CATALOG.images.values())), overrides=overrides[0])
    catalog = replace(CATALOG, images={**CATALOG.images, image.slug: image}, gpus={"t4": gpu})
    assert placed({"image": image.slug, "gpu": "t4"}, catalog).start_timeout_s == seconds


@pytest.mark.parametrize("value", ["900", True, None, 1.5])
def test_a_value_that_is_no_number_of_seconds_is_no_start_timeout(value: object):
    catalog = with_presets(preset("p", overrides={"start_timeout": value}))
    assert placed({"preset": "p"}, catalog).start_timeout_s is None


@pytest.mark.parametrize(
    ("given_", "chosen"),
    [
        ({}, {"image": "torch", "size": "small"}),
        ({"size": "large"}, {"image": "torch", "size": "large"}),
        ({"size": None, "image": ""}, {"image": "torch", "size": "small"}),
        ({"size": "large", "image": "r"}, {"image": "r", "size": "large"}),
    ],
    ids=["none", "one", "empty", "all"],
)
def test_the_first_entry_is_the_default(given_: dict[str, Any], chosen: dict[str, str]):
    found = validate({"preset": "pictured", "preset_choices": given_}, CATALOG)
    assert dict(found.preset_choices) == chosen


def test_later_choices_win():
    catalog = with_presets(
        preset("p", choice("a", entry("x", cpu=1, memory="1G")), choice("b", entry("y", cpu=2)), cpu=3)
    )
    found = validate({"preset": "p"}, catalog)
    assert (found.cpu_millis, found.memory_bytes) == (2000, GIB)


@pytest.mark.parametrize(
    ("given_", "field", "code"),
    [
        ({"cpu": 4}, "cpu", "conflict"),
        ({"gpu": "t4"}, "gpu", "conflict"),
        ({"gpu_count": 0}, "gpu_count", "conflict"),
        ({"image": "r"}, "image", "conflict"),
        ({"custom_image": OWN}, "custom_image", "conflict"),
        ({"custom_image": 0}, "custom_image", "conflict"),
        ({"run_time": "1h"}, "run_time", "conflict"),
        ({"cpu_guarantee": 1}, "cpu_guarantee", "unknown_field"),
        ({"kubespawner_override": {"uid": 0}}, "kubespawner_override", "unknown_field"),
        ({"preset_choices": []}, "preset_choices", "wrong_type"),
        ({"preset_choices": "size:small"}, "preset_choices", "wrong_type"),
        ({"preset_choices": {"size": "huge"}}, "preset_choices", "unknown_choice"),
        ({"preset_choices": {"size": ["small"]}}, "preset_choices", "unknown_choice"),
        ({"preset_choices": {"size": {}}}, "preset_choices", "unknown_choice"),
        ({"preset_choices": {"colour": "red"}}, "preset_choices", "unknown_field"),
        ({"preset_choices": {"colour": None}}, "preset_choices", "unknown_field"),
        ({"v": 2}, "v", "unsupported_version"),
    ],
)
def test_nothing_else_can_be_chosen(given_: dict[str, Any], field: str, code: str):
    assert codes({"preset": "sized", **given_}) == {field: code}


@pytest.mark.parametrize(
    "name", ["image", "cpu", "memory", "gpu_count", "run_time", "shared_memory", "priority", "gpu"]
)
@pytest.mark.parametrize("value", [None, ""], ids=["null", "empty"])
def test_fields_that_are_empty_are_not_chosen(name: str, value: object):
    assert validate({"preset": "sized", name: value}, CATALOG).preset == "sized"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"preset": "sized", "cpu": 4}, "The preset 'Sized' sets cpu itself."),
        (
            {"preset": "sized", "preset_choices": {"size": "lage"}},
            "Size: there is no entry 'lage'. Did you mean 'large'? Offered: small, large.",
        ),
        (
            {"preset": "sized", "preset_choices": {"siez": "large"}},
            "The preset Sized has no choice 'siez'. Offered: size.",
        ),
        ({"preset": "free", "preset_choices": {"size": "large"}}, "The preset Free has no choice 'size'."),
        ({"preset": "named"}, "Image: name an image."),
        ({"preset": "named", "custom_image": "ghcr.io/a:1"}, "Name one of ours."),
        ({"preset": "pictured", "custom_image": OWN}, "The image must match ^acme/.+:.+$."),
        ({"preset_choices": {"size": "large"}}, "Only a preset with choices takes preset_choices."),
        ({"preset": "plain", "preset_choices": {"size": "large"}}, "Only a preset with choices takes preset_choices."),
    ],
)
def test_a_sentence_says_what_is_wrong(options: dict[str, Any], expected: str):
    assert message(options) == expected


def test_a_million_names_are_refused_quickly():
    asked = {f"name{number}": "x" for number in range(1_000_000)}
    began = time.perf_counter()
    assert codes({"preset": "sized", "preset_choices": asked}) == {"preset_choices": "unknown_field"}
    assert time.perf_counter() - began < 2


def test_an_image_that_the_user_names_takes_the_place_of_an_entry():
    options = {"preset": "pictured", "custom_image": "acme/own:1", "preset_choices": {"size": "large"}}
    found = validate(options, CATALOG)
    assert (found.image, found.custom_image, dict(found.preset_choices)) == ("", "acme/own:1", {"size": "large"})
    # The text stays as written: `docker.io/acme/own:1` would not match the pattern at the next start.
    assert (placed(options).image, placed(options).overrides[0]) == ("acme/own:1", {"uid": 0})
    assert build_options(found, CATALOG)["custom_image"] == "acme/own:1"


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("acme/own", "not_a_reference"),
        ("acme/own:1 ", "not_a_reference"),
        ("acme/" + "x" * MAX_REFERENCE_LENGTH + ":1", "too_long"),
        (["acme/own:1"], "wrong_type"),
        (False, "wrong_type"),
        ({}, "wrong_type"),
    ],
)
def test_text_that_is_no_image_is_refused(reference: object, code: str):
    assert codes({"preset": "pictured", "custom_image": reference}) == {"custom_image": code}


def test_registries_of_the_settings_do_not_apply_where_a_preset_has_a_pattern():
    catalog = replace(CATALOG, custom_images=CustomImages(registries=("ghcr.io",)))
    assert validate({"preset": "named", "custom_image": OWN}, catalog).custom_image == OWN


def test_an_entry_and_an_image_for_one_choice_contradict_each_other():
    asked = {"preset": "pictured", "preset_choices": {"image": "r"}, "custom_image": "acme/own:1"}
    assert codes(asked) == {"custom_image": "conflict"}


def test_only_presets_can_be_started_where_the_settings_say_so():
    assert codes({"cpu": 4}, ONLY_PRESETS) == {"cpu": "conflict"}
    assert codes({"preset": "plain", "cpu": 4}, ONLY_PRESETS) == {"cpu": "conflict"}
    assert codes({"preset": "gone", "preset_choices": {"a": "b"}}, ONLY_PRESETS) == {"preset": "unknown_choice"}
    assert codes({}, replace(ONLY_PRESETS, presets={})) == {"preset": "missing"}


@pytest.mark.parametrize("options", [None, {}, {"preset": None}, {"preset": "", "v": 1}])
def test_a_server_without_a_choice_gets_the_default_preset(options: object):
    chosen = with_presets(preset("a", cpu=1), preset("b", is_default=True, cpu=2), only_presets=True)
    first = with_presets(preset("a", cpu=1), preset("b", cpu=2), only_presets=True)
    assert [validate(options, each).preset for each in (chosen, first, CATALOG)] == ["b", "a", None]


def test_a_server_with_a_plain_preset_of_such_a_list_is_stored_with_it():
    stored = build_options(validate({"preset": "plain"}, ONLY_PRESETS), ONLY_PRESETS)
    assert stored == {"v": 1, "preset": "plain", "profile": "Plain · R · 4 CPUs · 8 GiB"}


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ({"preset": "free"}, "Free · Torch"),
        ({"preset": "sized"}, "Sized · Torch · 0.124 CPU · 4 GiB"),
        ({"preset": "named", "custom_image": OWN}, f"Named · {OWN} · 2 CPUs · 8 GiB"),
    ],
)
def test_the_summary_names_the_preset(options: dict[str, Any], summary: str):
    assert summarize_selection(validate(options, CATALOG), CATALOG) == summary


@given(
    slug=st.sampled_from([*PRESETS]),
    chosen=st.dictionaries(
        st.sampled_from(["size", "image", "other"]), st.sampled_from(["small", "large", "torch", "r", "", None])
    ),
    image=st.sampled_from([None, "", OWN, "acme/own:1", "nothing at all"]),
    only_presets=st.booleans(),
)
def test_stored_options_are_the_same_choice_again(
    slug: str, chosen: dict[str, Any], image: str | None, only_presets: bool
):
    catalog = replace(CATALOG, only_presets=only_presets)
    try:
        found = validate({"preset": slug, "preset_choices": chosen, "custom_image": image}, catalog)
    except SelectionError:
        return
    stored = json.loads(json.dumps(build_options(found, catalog)))
    assert validate(stored, catalog) == found
    assert place(validate(stored, catalog), catalog) == place(found, catalog)


@given(chosen=JSON, image=JSON, slug=st.sampled_from([*PRESETS]) | JSON, only_presets=st.booleans())
def test_any_json_is_a_selection_or_a_problem(chosen: object, image: object, slug: object, only_presets: bool):
    catalog = replace(CATALOG, only_presets=only_presets)
    options = {"preset": slug, "preset_choices": chosen, "custom_image": image}
    try:
        found: str | None = validate(options, catalog).preset
    except SelectionError:
        found = None
    assert found in {*PRESETS, None}


def test_the_values_of_a_preset_stay_as_they_are():
    before = json.dumps([dict(each.options) for each in PRESETS.values()])
    resolve_preset({"custom_image": "acme/own:1"}, PRESETS["pictured"], problems=Problems())
    assert json.dumps([dict(each.options) for each in PRESETS.values()]) == before


GONE = entry("gone", gpu="a100")
WITHOUT_GPU = entry("none", gpu=None)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        pytest.param((SIZE,), {"size": ["small", "large"]}, id="all"),
        pytest.param((choice("a", WITHOUT_GPU, GONE),), {"a": ["none"]}, id="without one that is gone"),
        pytest.param((choice("a", GONE, WITHOUT_GPU),), {"a": ["none"]}, id="another default"),
        pytest.param((choice("a", GONE),), None, id="nothing is left"),
        pytest.param((SIZE, choice("a", GONE)), None, id="nothing is left of one"),
        pytest.param(
            (choice("a", GONE, custom_image=ImageInput(pattern="x")), SIZE),
            {"a": [], "size": ["small", "large"]},
            id="an image",
        ),
        pytest.param(
            (choice("a", entry("amd", gpu="mi210"), entry("t4", gpu="t4")), choice("b", entry("torch", image="torch"))),
            {"a": ["t4"], "b": ["torch"]},
            id="what fits together",
        ),
        pytest.param(
            (
                choice("a", entry("t4", gpu="t4"), entry("amd", gpu="mi210")),
                choice("b", entry("r", image="r"), entry("torch", image="torch")),
            ),
            {"a": ["t4", "amd"], "b": ["r", "torch"]},
            id="what fits with the defaults",
        ),
    ],
)
def test_entries_that_cannot_be_started_are_left_out(
    choices: tuple[PresetChoice, ...], expected: dict[str, list[str]] | None
):
    presets = {"p": preset("p", *choices), "plain": PRESETS["plain"]}
    found = select_usable_presets(presets, CATALOG)
    names = {name: [*each.entries] for name, each in found["p"].choices.items()} if "p" in found else None
    assert (names, found["plain"]) == (expected, PRESETS["plain"])
    assert [*find_invalid_presets(presets, CATALOG)] == ([] if expected is not None else ["p"])


FOUR = [choice(name, *(entry(f"{name}{number}") for number in range(4))) for name in "bcde"]


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        pytest.param([choice("a", GONE, WITHOUT_GPU), *FOUR], {"a": ["none"]}, id="the first"),
        pytest.param([*FOUR, choice("a", GONE, WITHOUT_GPU)], {"a": ["none"]}, id="the last"),
        pytest.param(
            [
                choice("a", GONE, entry("amd", gpu="mi210")),
                *FOUR,
                choice("f", entry("torch", image="torch"), entry("r", image="r")),
            ],
            {"a": ["amd"], "f": ["r"]},
            id="the first and the last",
        ),
    ],
)
def test_an_entry_is_found_among_many_combinations(choices: list[PresetChoice], expected: dict[str, list[str]]):
    found = select_usable_presets({"p": preset("p", *choices)}, CATALOG)["p"]
    others = {each.name: [*each.entries] for each in FOUR}
    assert {name: [*each.entries] for name, each in found.choices.items()} == others | expected


@pytest.mark.parametrize(
    ("first", "field", "checks"),
    [
        pytest.param(entry("x"), "gpu", 1, id="the preset's own GPU"),
        pytest.param(entry("x", gpu="t4"), "gpu", 2, id="GPUs of a choice"),
        pytest.param(entry("x"), "run_time", 1 + 1 + 4 * 3 + 256, id="a field that depends on others"),
    ],
)
def test_a_preset_that_no_user_may_have_costs_few_checks(first: PresetVariant, field: str, checks: int):
    checked = []

    def deny(selection: Selection) -> list[Problem]:
        checked.append(selection)
        return [Problem(field=field, code="denied", message="")]

    own = preset("p", choice("a", first, replace(first, slug="y")), *FOUR, gpu="t4")
    assert select_usable_presets({"p": own}, CATALOG, find_denials=deny) == {}
    assert len(checked) == checks


def test_a_preset_in_which_an_image_must_be_named_is_a_valid_choice():
    assert find_invalid_presets(PRESETS, CATALOG) == {}


def test_no_image_can_be_named_where_the_entries_give_what_the_preset_needs():
    only_entry = choice("a", entry("t4", gpu="t4", image="r"), custom_image=ImageInput())
    found = select_usable_presets({"p": preset("p", only_entry, gpu_count=2)}, CATALOG)
    assert found["p"].choices["a"] == replace(only_entry, custom_image=None)
