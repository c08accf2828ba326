from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Bounds, Catalog, CustomImages, GPUType, Image, Preset
from gpuspawner.core.catalog.software import index_images, read_platform
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.selection import (
    Selection,
    build_options,
    is_given,
    summarize_selection,
    validate,
)

GIB = 1 << 30
CATALOG = Catalog(
    images={
        "pytorch": Image(slug="pytorch", display_name="PyTorch", image="pytorch:1", vendors=("nvidia",)),
        "plain": Image(slug="plain", display_name="Plain", image="plain:1"),
        "cpu": Image(slug="cpu", display_name="CPU only", image="cpu:1", vendors=()),
    },
    cpu=Bounds(min=500, max=32_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=256 * GIB, step=GIB, default=8 * GIB),
    gpus={
        "t4": GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4),
        "mi210": GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd"),
    },
    presets={
        "train": Preset(
            slug="train",
            display_name="Training",
            options={"image": "plain", "cpu": "8", "memory": "64G", "gpu": "t4", "gpu_count": 2},
        )
    },
    custom_images=CustomImages(registries=("quay.io", "ghcr.io/acme")),
)
TIMED = replace(CATALOG, run_time=Bounds(min=900, max=24 * 3600, step=900, default=8 * 3600))
SHARING = replace(TIMED, shared_memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=GIB))
RANKED = replace(
    SHARING,
    choices={
        "priority": {
            "normal": Priority(slug="normal", display_name="Normal", priority_class="site-normal", value=100),
            "low": Priority(slug="low", display_name="Low", priority_class="site-low", value=-10),
        }
    },
)
OWN = "quay.io/acme/own:1"
NOTHING_KNOWN = Catalog(images=CATALOG.images, cpu=None, memory=None, gpus=CATALOG.gpus, presets=CATALOG.presets)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=10,
)
CODES = {
    "unknown_field",
    "unknown_choice",
    "not_a_number",
    "not_a_reference",
    "out_of_range",
    "off_step",
    "wrong_type",
    "conflict",
    "unsupported_version",
    "too_long",
}
FIELDS = (
    *("v", "preset", "image", "custom_image", "cpu", "memory", "gpu", "gpu_count"),
    *("run_time", "shared_memory", "priority", "profile"),
)
NEAR_MISSES = st.dictionaries(
    st.sampled_from(FIELDS) | st.text(max_size=10),
    JSON | st.sampled_from([1, 2, 0.5, "2", "16G", "t4", "mi210", "train", "plain", "cpu", OWN, "", "8h", "90 min"]),
)
SELECTIONS = st.one_of(
    st.builds(
        Selection,
        image=st.just("plain"),
        cpu_millis=st.integers(1, 64).map(lambda steps: steps * 500),
        memory_bytes=st.integers(1, 256).map(lambda steps: steps * GIB),
        gpu=st.just("t4"),
        gpu_count=st.integers(1, 4),
    ),
    st.builds(
        Selection,
        image=st.sampled_from(["pytorch", "plain", "cpu"]),
        cpu_millis=st.integers(1, 64).map(lambda steps: steps * 500),
        memory_bytes=st.integers(1, 256).map(lambda steps: steps * GIB),
    ),
    st.builds(
        Selection,
        image=st.just(""),
        custom_image=st.sampled_from([OWN, "ghcr.io/acme/x@sha256:" + "0a" * 32]),
        cpu_millis=st.just(500),
        memory_bytes=st.just(GIB),
        gpu=st.just("mi210"),
        gpu_count=st.just(1),
    ),
)


def codes(options: object, catalog: Catalog = CATALOG) -> dict[str, str]:
    try:
        validate(options, catalog)
    except SelectionError as error:
        return {problem.field: problem.code for problem in error.problems}
    return {}


@given(JSON | NEAR_MISSES)
def test_any_json_is_a_selection_or_a_selection_error(options: object):
    if problems := codes(options, RANKED):
        assert set(problems.values()) <= CODES
        return
    selection = validate(options, RANKED)
    assert selection.choices["priority"] in RANKED.choices["priority"]
    assert (selection.shared_memory_bytes or 0) <= (selection.memory_bytes or 0)
    assert selection.run_time_s in range(900, 24 * 3600 + 1, 900)
    assert (selection.image in CATALOG.images) == (selection.custom_image is None)
    assert selection.cpu_millis is not None
    assert 500 <= selection.cpu_millis <= 32_000
    assert (selection.gpu is None) == (selection.gpu_count == 0)
    assert selection.gpu is None or 1 <= selection.gpu_count <= CATALOG.gpus[selection.gpu].max_count


@given(SELECTIONS, st.integers(1, 96))
def test_a_selection_reads_back_from_its_options_also_through_json(selection: Selection, quarters: int):
    options = json.loads(json.dumps(build_options(selection, CATALOG)))
    assert validate(options, CATALOG) == selection
    rank = "low" if quarters % 2 else "normal"
    more = replace(selection, run_time_s=quarters * 900, memory_bytes=128 * GIB, choices={"priority": rank})
    more = replace(more, shared_memory_bytes=quarters * GIB if quarters <= 64 else None)
    assert validate(json.loads(json.dumps(build_options(more, RANKED))), RANKED) == more


@given(NEAR_MISSES)
def test_options_that_were_read_once_read_the_same_again(options: dict[str, object]):
    if codes(options, RANKED):
        return
    first = build_options(validate(options, RANKED), RANKED)
    assert build_options(validate(first, RANKED), RANKED) == first


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"": "wrong_type"}),
        ("image=plain", {"": "wrong_type"}),
        ({"gpu_cuont": 1}, {"gpu_cuont": "unknown_field"}),
        ({3: 1}, {"3": "unknown_field"}),
        ({"v": 2}, {"v": "unsupported_version"}),
        ({"v": True}, {"v": "unsupported_version"}),
        ({"image": "nope"}, {"image": "unknown_choice"}),
        ({"image": 3}, {"image": "wrong_type"}),
        ({"cpu": 64}, {"cpu": "out_of_range"}),
        ({"cpu": 0.75}, {"cpu": "off_step"}),
        ({"cpu": float("nan")}, {"cpu": "not_a_number"}),
        ({"cpu": 10**400}, {"cpu": "not_a_number"}),
        ({"memory": "8"}, {"memory": "not_a_number"}),
        ({"memory": "1.5G"}, {"memory": "off_step"}),
        ({"memory": {"max": 1}}, {"memory": "wrong_type"}),
        ({"gpu": "zz", "gpu_count": 2}, {"gpu": "unknown_choice"}),
        ({"gpu": "t4", "gpu_count": 0}, {"gpu_count": "out_of_range"}),
        ({"gpu": "t4", "gpu_count": 5}, {"gpu_count": "out_of_range"}),
        ({"gpu": "t4", "gpu_count": "2"}, {"gpu_count": "not_a_number"}),
        ({"gpu": "t4", "gpu_count": 1.5}, {"gpu_count": "not_a_number"}),
        ({"gpu": "t4", "gpu_count": float("nan")}, {"gpu_count": "not_a_number"}),
        ({"gpu": "t4", "gpu_count": True}, {"gpu_count": "wrong_type"}),
        ({"gpu": None, "gpu_count": 1}, {"gpu_count": "conflict"}),
        ({"image": "cpu", "gpu": "t4"}, {"gpu": "conflict"}),
        ({"image": "pytorch", "gpu": "mi210"}, {"gpu": "conflict"}),
        ({"preset": "nope", "cpu": "x"}, {"preset": "unknown_choice", "cpu": "not_a_number"}),
        ({"image": "x" * 1000}, {"image": "too_long"}),
        ({"custom_image": "x y"}, {"custom_image": "not_a_reference"}),
        ({"custom_image": f" {OWN}"}, {"custom_image": "not_a_reference"}),
        ({"custom_image": "python:3"}, {"custom_image": "unknown_choice"}),
        ({"custom_image": ["quay.io/x"]}, {"custom_image": "wrong_type"}),
        ({"custom_image": "x" * 521}, {"custom_image": "too_long"}),
        ({"custom_image": OWN, "image": "plain"}, {"custom_image": "conflict"}),
        ({"custom_image": "x y", "image": "cpu", "gpu": "t4"}, {"custom_image": "not_a_reference"}),
        ({"custom_image": OWN, "image": "nope"}, {"image": "unknown_choice", "custom_image": "conflict"}),
    ],
)
def test_each_bad_field_is_one_problem_with_its_code(options: Any, expected: dict[str, str]):
    assert codes(options) == expected


@pytest.mark.parametrize("name", ["gpu_{}", "gpu_count_of_this_server_and_of_all_others_{}"])
def test_a_flood_of_unknown_fields_is_refused_at_once(name: str):
    flood = {name.format(number): 1 for number in range(200_000)}
    began = time.process_time()
    json.loads(json.dumps(flood))
    read = time.process_time()
    assert set(codes(flood).values()) == {"unknown_field"}
    # Some twenty times as long where a name that resembles is looked for each time.
    assert time.process_time() - read < 5 * (read - began)


def test_the_contents_of_a_custom_image_are_unknown_and_refuse_no_gpu():
    assert [validate({"custom_image": OWN, "gpu": gpu}, CATALOG).gpu for gpu in ("t4", "mi210")] == ["t4", "mi210"]


def test_a_listed_image_that_is_named_by_its_reference_goes_with_the_gpus_it_is_made_for():
    torch = replace(CATALOG.images["pytorch"], image=OWN)
    catalog = replace(CATALOG, custom_images=CustomImages(listed={OWN: torch}))
    assert codes({"custom_image": OWN, "gpu": "mi210"}, catalog) == {"gpu": "conflict"}
    assert codes({"custom_image": OWN, "image": "plain", "gpu": "mi210"}, catalog) == {"custom_image": "conflict"}
    selection = validate({"custom_image": OWN, "gpu": "t4"}, catalog)
    assert (selection.image, selection.custom_image) == ("", OWN)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"vendors": ()}, {"vendors": ("nvidia",)}),
        ({"vendors": ("amd",)}, {}),
        ({"cuda": "13.0"}, {"cuda": "11.8"}),
        ({"architectures": ("arm64",)}, {"architectures": ("amd64",)}),
    ],
)
def test_what_listed_images_with_one_reference_say_differently_refuses_no_gpu(
    one: dict[str, Any], other: dict[str, Any]
):
    platform = read_platform({"kubernetes.io/arch": "amd64", "nvidia.com/cuda.driver-version.major": "535"})
    gpus = {"t4": replace(CATALOG.gpus["t4"], platforms=(platform,))}
    images = [Image(slug=slug, display_name=slug, image=OWN, **facts) for slug, facts in (("one", one), ("two", other))]

    def is_refused(*listed: Image) -> bool:
        custom = CustomImages(listed=index_images(listed))
        return bool(codes({"custom_image": OWN, "gpu": "t4"}, replace(CATALOG, gpus=gpus, custom_images=custom)))

    assert (is_refused(images[0]), is_refused(*images), is_refused(*reversed(images))) == (True, False, False)


def test_what_listed_images_with_one_reference_override_differently_is_not_overridden():
    staff, lab = (
        Image(slug=slug, display_name=slug, image=OWN, overrides=overrides)
        for slug, overrides in (("staff", {"volumes": ["of staff"]}), ("lab", {}))
    )
    for listed in ((staff, lab), (lab, staff)):
        assert CustomImages(listed=index_images(listed)).describe(OWN).overrides == {}
    assert CustomImages(listed=index_images([staff, staff])).describe(OWN).overrides == {"volumes": ["of staff"]}


TRAIN = Selection(image="plain", cpu_millis=8000, memory_bytes=64 * GIB, gpu="t4", gpu_count=2)


@pytest.mark.parametrize(
    ("beside", "changes"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"cpu": 4, "gpu_count": 1}, {"cpu_millis": 4000, "gpu_count": 1}, id="amounts"),
        pytest.param({"gpu": "mi210"}, {"gpu": "mi210", "gpu_count": 1}, id="another GPU, which counts anew"),
        pytest.param({"gpu": None}, {"gpu": None, "gpu_count": 0}, id="no GPU"),
        pytest.param({"custom_image": OWN}, {"image": "", "custom_image": OWN}, id="a reference"),
    ],
)
def test_a_preset_stands_for_its_options_and_fields_beside_it_override_it(
    beside: dict[str, object], changes: dict[str, Any]
):
    assert validate({"preset": "train", **beside}, CATALOG) == replace(TRAIN, **changes)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("gpu", None, True),
        ("image", "", False),
        ("custom_image", "", False),
        ("cpu", None, False),
        ("cpu", "", True),
    ],
)
def test_only_no_gpu_is_a_choice_of_nothing(name: str, value: object, expected: bool):
    assert is_given(name, value) is expected


def test_without_bounds_amounts_are_left_to_the_spawner():
    selection = validate({"preset": "train"}, NOTHING_KNOWN)
    assert (selection.cpu_millis, selection.memory_bytes) == (None, None)


def test_options_are_written_in_the_contracts_notation():
    selection = Selection(image="plain", cpu_millis=2500, memory_bytes=16 * GIB, gpu="t4", gpu_count=1)
    assert build_options(selection, CATALOG) == {
        "v": 1,
        "image": "plain",
        "cpu": 2.5,
        "memory": "16G",
        "gpu": "t4",
        "gpu_count": 1,
        "profile": "Plain · 2.5 CPUs · 16 GiB · 1 × T4",
    }


@pytest.mark.parametrize(
    ("millis", "text"),
    [(500, "Plain · 0.5 CPU · 8 GiB"), (1000, "Plain · 1 CPU · 8 GiB"), (2000, "Plain · 2 CPUs · 8 GiB")],
)
def test_the_summary_counts_cpus_in_common_words(millis: int, text: str):
    assert summarize_selection(Selection(image="plain", cpu_millis=millis, memory_bytes=8 * GIB), CATALOG) == text


def test_an_image_that_no_node_of_the_gpu_type_can_run_is_refused_with_the_reason():
    platforms = (read_platform({"nvidia.com/cuda.driver-version.major": "535"}),)
    catalog = replace(
        CATALOG,
        images={"new": Image(slug="new", display_name="New", image="new:1", cuda="13.0")},
        gpus={"t4": replace(CATALOG.gpus["t4"], platforms=platforms)},
    )
    with pytest.raises(SelectionError) as refused:
        validate({"image": "new", "gpu": "t4"}, catalog)
    (problem,) = refused.value.problems
    assert (problem.field, problem.code) == ("gpu", "conflict")
    assert problem.message == (
        "CUDA 13.0 needs driver 580 or newer; these nodes have 535. "
        f"Choose another image, or a GPU other than {CATALOG.gpus['t4'].display_name}."
    )
    assert validate({"image": "new", "gpu": None}, catalog).gpu is None
