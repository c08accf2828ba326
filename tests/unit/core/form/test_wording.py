from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.form.wording import (
    describe_candidate,
    describe_difference,
    format_caution,
    format_data_age,
    format_gpu_memory,
    list_badges,
)
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.selection import Selection

GIB = 1 << 30
CATALOG = Catalog(
    images={slug: Image(slug=slug, display_name=slug.title(), image=slug) for slug in ("plain", "torch")},
    cpu=None,
    memory=None,
    gpus={"t4": GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia")},
)
WANTED = Selection(image="plain", cpu_millis=4000, memory_bytes=8 * GIB, gpu="t4", gpu_count=2)


@pytest.mark.parametrize(
    ("memory_bytes", "text"),
    [(None, ""), (80 * GIB, "80 GiB"), (4864 << 20, "4.75 GiB"), (11_441 << 20, "11.17 GiB"), (100 * GIB, "100 GiB")],
)
def test_gpu_memory_is_shown_to_two_decimals(memory_bytes: int | None, text: str):
    assert format_gpu_memory(memory_bytes) == text


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ()),
        ({"spot": False, "interconnect": ""}, ()),
        ({"spot": True, "interconnect": "NVLink"}, ("NVLink", "spot")),
    ],
)
def test_what_else_a_gpu_type_is_takes_a_word_each(facts: dict[str, Any], words: tuple[str, ...]):
    assert list_badges(replace(CATALOG.gpus["t4"], **facts)) == words


@pytest.mark.parametrize(("spot", "is_told"), [(None, False), (False, False), (True, True)])
def test_the_meaning_of_spot_is_explained_in_a_sentence(spot: bool | None, is_told: bool):
    text = format_caution(replace(CATALOG.gpus["t4"], spot=spot))
    assert (text.startswith("Spot: "), text.endswith("what is not saved on its volume is lost.")) == (is_told, is_told)
    assert is_told or text == ""


@pytest.mark.parametrize(
    ("age_s", "text"),
    [
        (None, ""),
        (0.0, ""),
        (60.0, ""),
        (60.5, "as of 60 s ago"),
        (179.0, "as of 2 min ago"),
        (5399.9, "as of 89 min ago"),
        (5400.0, "as of 1 h ago"),
        (90_000.0, "as of 25 h ago"),
    ],
)
def test_counts_of_more_than_a_minute_are_shown_with_their_age(age_s: float | None, text: str):
    assert format_data_age(age_s) == text


WHOLE = "Plain · 4 CPUs · 8 GiB RAM · 2 × T4"
TIMED, SHARED = {"run_time_s": 5400}, {"shared_memory_bytes": GIB}
OWN_IMAGE = {"image": "", "custom_image": "quay.io/x:1"}


@pytest.mark.parametrize(
    ("before", "changes", "text"),
    [
        ({}, {"gpu_count": 1}, "1 × T4"),
        ({}, {"gpu": None, "gpu_count": 0}, "no GPU"),
        ({}, {"cpu_millis": 2000, "memory_bytes": 4 * GIB}, "2 CPUs and 4 GiB"),
        ({}, {"image": "torch", "gpu_count": 1, "cpu_millis": 500}, "Torch, 1 × T4 and 0.5 CPU"),
        ({}, {**OWN_IMAGE, "gpu_count": 1}, "quay.io/x:1 and 1 × T4"),
        ({}, SHARED, "1 GiB shared memory"),
        ({}, {**TIMED, "gpu_count": 1}, "1 × T4 and up to 1 hour 30 minutes"),
        ({}, {}, WHOLE),
        (TIMED, {"gpu_count": 1}, "1 × T4"),
        (TIMED, {}, f"{WHOLE} · up to 1 hour 30 minutes"),
        (SHARED, {"shared_memory_bytes": None}, "shared memory as usual"),
        (SHARED, {}, "Plain · 4 CPUs · 8 GiB RAM · 1 GiB shared memory · 2 × T4"),
        (OWN_IMAGE, {"gpu_count": 1}, "1 × T4"),
        (None, {}, WHOLE),
    ],
)
def test_another_choice_is_described_by_its_differences(
    before: dict[str, Any] | None, changes: dict[str, Any], text: str
):
    base = None if before is None else replace(WANTED, **before)
    assert describe_difference(replace(base or WANTED, **changes), base, catalog=CATALOG) == text


@pytest.mark.parametrize(
    ("name", "memory_bytes", "count", "text"),
    [
        pytest.param("T4", 15 * GIB, 4, "4 × T4 (60 GiB)", id="several"),
        pytest.param("T4", 15 * GIB, 1, "1 × T4 (15 GiB)", id="one"),
        pytest.param("A100 80 GB", 80 * GIB, 1, "1 × A100 80 GB", id="its name says so"),
        pytest.param("A100 80 GB", 80 * GIB, 3, "3 × A100 80 GB (240 GiB)", id="several of such a name"),
        pytest.param("A100 (MIG 1g.5gb)", 4864 << 20, 1, "1 × A100 (MIG 1g.5gb)", id="a slice"),
        pytest.param("A100 (MIG 1g.5gb)", 4864 << 20, 2, "2 × A100 (MIG 1g.5gb) (9.5 GiB)", id="two slices"),
    ],
)
def test_other_gpus_are_suggested_with_the_memory_that_they_have_in_total(
    name: str, memory_bytes: int, count: int, text: str
):
    other = replace(CATALOG.gpus["t4"], slug="other", display_name=name, memory_bytes=memory_bytes)
    catalog = replace(CATALOG, gpus={**CATALOG.gpus, "other": other})
    assert describe_difference(replace(WANTED, gpu="other", gpu_count=count), WANTED, catalog=catalog) == text


def test_a_priority_is_shown_where_it_is_not_the_usual_one():
    ranks = {
        each: Priority(slug=each, display_name=each.title(), priority_class=each, value=1) for each in ("first", "low")
    }
    catalog = replace(CATALOG, choices={"priority": ranks})
    usual, low = replace(WANTED, choices={"priority": "first"}), replace(WANTED, choices={"priority": "low"})
    assert describe_difference(low, None, catalog=catalog) == "Plain · 4 CPUs · 8 GiB RAM · 2 × T4 · priority Low"
    assert describe_difference(usual, None, catalog=catalog) == "Plain · 4 CPUs · 8 GiB RAM · 2 × T4"
    assert [describe_difference(*each, catalog=catalog) for each in ((low, usual), (usual, low))] == [
        "priority Low",
        "priority First",
    ]


OFFERED = replace(
    CATALOG,
    gpus={
        slug: GPUType(slug=slug, display_name=name, resource="nvidia.com/gpu", vendor="nvidia")
        for slug, name in (("t4", "T4"), ("a100", "A100"), ("l4", "L4"), ("h100", "H100"))
    },
    hidden=(GPUType(slug="k80", display_name="K80", resource="nvidia.com/gpu", vendor="nvidia"),),
)


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        pytest.param({}, "No GPU", id="none"),
        pytest.param({"counts": {"nvidia.com/gpu": 2}, "gpu": "a100", "types": ("a100",)}, "2 × A100", id="one type"),
        pytest.param(
            {"counts": {"nvidia.com/gpu": 1}, "gpu": "", "types": ("t4", "a100", "l4")},
            "1 × T4, A100 or L4",
            id="any of some types",
        ),
        pytest.param(
            {"counts": {"nvidia.com/gpu": 1}, "gpu": "", "types": ("t4", "a100", "l4", "h100")},
            "1 × NVIDIA GPU of any type",
            id="any of many types",
        ),
        pytest.param(
            {"counts": {"nvidia.com/gpu": 1}, "gpu": "k80", "types": ("k80",)}, "1 × K80", id="a type that is taken out"
        ),
        pytest.param({"counts": {"x.io/tpu": 4}, "gpu": ""}, "4 × x.io/tpu of unknown type", id="unknown type"),
        pytest.param(
            {"counts": {"nvidia.com/gpu": 1}, "gpu": "", "types": ("t4",), "may_be_new": True, "names_new": True},
            "1 × NVIDIA GPU of unknown type",
            id="a label of no known type",
        ),
        pytest.param(
            {"counts": {"nvidia.com/gpu": 1, "amd.com/gpu": 2}, "gpu": ""},
            "3 × AMD GPU, NVIDIA GPU of unknown type",
            id="several resources",
        ),
    ],
)
def test_a_profile_says_which_gpus_it_gives(gpus: dict[str, Any], text: str):
    assert describe_candidate(Candidate(gpus=PodGPUs(**gpus)), OFFERED) == text


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        pytest.param({}, "1 × A100", id="none"),
        pytest.param({"cpu": (8000, 1000), "memory": (32 * GIB, GIB)}, "1 × A100 · 8 CPUs · 32 GiB", id="limits"),
        pytest.param(
            {"cpu": (8000, 8000), "memory": (0, 32 * GIB)}, "1 × A100 · 8 CPUs · at least 32 GiB", id="one request"
        ),
        pytest.param({"cpu": (0, 500)}, "1 × A100 · at least 0.5 CPU", id="request"),
    ],
)
def test_a_profile_says_which_amounts_it_gives(amounts: dict[str, Any], text: str):
    a100 = PodGPUs(counts={"nvidia.com/gpu": 1}, gpu="a100", types=("a100",))
    assert describe_candidate(Candidate(gpus=a100, **amounts), OFFERED) == text
