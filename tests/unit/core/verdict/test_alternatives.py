from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, UnitKind
from gpuspawner.core.catalog.software import read_platform
from gpuspawner.core.request.selection import Selection, build_options, validate
from gpuspawner.core.verdict.alternatives import (
    MAX_FIT_CHECKS,
    choose_gpu_count,
    find_alternatives,
    list_other_types,
)

GIB = 1 << 30


def gpu(slug: str, **changes: Any) -> GPUType:
    values = {"display_name": slug.upper(), "resource": "nvidia.com/gpu", "vendor": "nvidia", "max_count": 8}
    return GPUType(slug=slug, **(values | changes))


CATALOG = Catalog(
    images={
        "torch": Image(slug="torch", display_name="PyTorch", image="torch:1", vendors=("nvidia",)),
        "any": Image(slug="any", display_name="Any", image="any:1"),
    },
    cpu=Bounds(min=500, max=32_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=256 * GIB, step=GIB, default=8 * GIB),
    gpus={
        "mi210": gpu("mi210", vendor="amd", memory_bytes=64 * GIB),
        "t4": gpu("t4", memory_bytes=16 * GIB, max_count=4),
        "h100": gpu("h100", memory_bytes=80 * GIB),
        "a100": gpu("a100", memory_bytes=40 * GIB),
        "a100-mig": gpu("a100-mig", memory_bytes=40 * GIB, unit=UnitKind.MIG, max_count=1),
        "l4": gpu("l4", memory_bytes=24 * GIB),
        "old": gpu("old"),
    },
)
WANTED = Selection(image="torch", cpu_millis=16_000, memory_bytes=64 * GIB, gpu="a100", gpu_count=8)


def found(wanted: Selection, fits: Callable[[Selection], bool]) -> list[dict[str, object]]:
    """Return what differs from the selection in each choice."""
    choices = find_alternatives(wanted, CATALOG, fits=fits)
    names = ("image", "cpu_millis", "memory_bytes", "gpu", "gpu_count")
    return [{n: getattr(c, n) for n in names if getattr(c, n) != getattr(wanted, n)} for c in choices]


SHARING = replace(WANTED, shared_memory_bytes=48 * GIB)
SHARING_MORE = replace(WANTED, shared_memory_bytes=48 * GIB + 1)


@pytest.mark.parametrize(
    ("wanted", "fits", "expected"),
    [
        pytest.param(WANTED, lambda each: False, [], id="nothing"),
        pytest.param(WANTED, lambda each: each.gpu_count <= 5 and each.gpu == "a100", [{"gpu_count": 5}], id="GPUs"),
        pytest.param(WANTED, lambda each: each.cpu_millis <= 7300, [{"cpu_millis": 7000}], id="CPU"),
        pytest.param(WANTED, lambda each: each.memory_bytes <= 63 * GIB, [{"memory_bytes": 63 * GIB}], id="memory"),
        pytest.param(
            Selection(image="any", cpu_millis=8000, memory_bytes=16 * GIB),
            lambda each: each.cpu_millis < 8000,
            [{"cpu_millis": 7500}],
            id="CPU without a GPU",
        ),
        pytest.param(
            WANTED,
            lambda each: each.gpu_count < 8 or each.gpu == "h100" or each.memory_bytes < 10 * GIB,
            [{"gpu_count": 7}, {"memory_bytes": 9 * GIB}, {"gpu": "h100", "gpu_count": 4}],
            id="one change each, in order",
        ),
        pytest.param(
            WANTED,
            lambda each: each.cpu_millis <= 2000 and each.memory_bytes <= 8 * GIB,
            [{"cpu_millis": 2000, "memory_bytes": 8 * GIB}],
            id="CPU and memory where one is not enough",
        ),
        pytest.param(WANTED, lambda each: each.gpu == "t4", [{"gpu": "t4", "gpu_count": 4}], id="the most of a type"),
        pytest.param(
            WANTED,
            lambda each: each.gpu == "a100" and each.gpu_count <= 2 and each.cpu_millis <= 4000,
            [{"gpu_count": 2, "cpu_millis": 4000}],
            id="fewer GPUs with less CPU",
        ),
        pytest.param(
            replace(WANTED, cpu_millis=None, memory_bytes=None, gpu_count=1),
            lambda each: each.gpu == "h100",
            [{"gpu": "h100"}],
            id="no amounts that are left to KubeSpawner",
        ),
        pytest.param(
            SHARING, lambda each: each.memory_bytes <= 50 * GIB, [{"memory_bytes": 50 * GIB}], id="shared memory fits"
        ),
        pytest.param(SHARING, lambda each: each.memory_bytes <= 40 * GIB, [], id="shared memory does not fit"),
        pytest.param(
            SHARING,
            lambda each: each.memory_bytes <= 48 * GIB and each.cpu_millis <= 2000,
            [{"cpu_millis": 2000, "memory_bytes": 48 * GIB}],
            id="as much memory as is shared",
        ),
        pytest.param(
            SHARING_MORE, lambda each: each.memory_bytes <= 49 * GIB, [{"memory_bytes": 49 * GIB}], id="the next step"
        ),
        pytest.param(SHARING_MORE, lambda each: each.memory_bytes <= 48 * GIB, [], id="no step below"),
    ],
)
def test_what_fits_is_changed_as_little_as_possible(
    wanted: Selection, fits: Callable[[Selection], bool], expected: list[dict[str, object]]
):
    assert found(wanted, fits) == expected


def test_another_type_has_at_least_the_memory_before_it_has_less():
    one = replace(WANTED, gpu_count=1)
    others = list_other_types(one, CATALOG)
    assert [(other.slug, choose_gpu_count(other, one, catalog=CATALOG)) for other in others] == [
        ("h100", 1), ("a100-mig", 1), ("l4", 2), ("t4", 3), ("old", 1),
    ]  # fmt: skip


DEMO = replace(
    CATALOG,
    gpus={
        "a100": gpu("a100", memory_bytes=40 * GIB, max_count=4),
        "a100-80": gpu("a100-80", memory_bytes=80 * GIB),
        "h100": gpu("h100", memory_bytes=81_559 << 20),
        "l4": gpu("l4", memory_bytes=22 * GIB, max_count=2),
        "mig": gpu("mig", memory_bytes=5 * GIB, unit=UnitKind.MIG, max_count=7),
        "mi300x": gpu("mi300x", vendor="amd", memory_bytes=192 * GIB, max_count=2),
    },
)


@pytest.mark.parametrize(
    ("gpu", "count", "free", "offered"),
    [
        pytest.param("a100", 4, {"a100": 3, "mig": 7, "mi300x": 2}, [("a100", 3), ("mi300x", 1)], id="no slices"),
        pytest.param("a100", 4, {"a100": 1, "a100-80": 8}, [("a100-80", 2)], id="fewer of a larger type"),
        pytest.param("a100", 1, {"mig": 7, "mi300x": 2}, [("mi300x", 1)], id="no eighth of the memory"),
        pytest.param("a100", 1, {"mig": 7}, [("mig", 1)], id="a slice where nothing else is free"),
        pytest.param("a100", 1, {"l4": 2, "h100": 8}, [("h100", 1), ("l4", 2)], id="one GPU before two"),
        pytest.param("a100-80", 1, {"h100": 8}, [("h100", 1)], id="the same nominal memory"),
        pytest.param("a100-80", 8, {"a100-80": 2, "a100": 4}, [("a100-80", 2), ("a100", 4)], id="all are far smaller"),
        pytest.param("a100-80", 8, {"a100-80": 4, "a100": 4}, [("a100-80", 4)], id="half"),
    ],
)
def test_alternatives_have_about_as_much_gpu_memory(
    gpu: str, count: int, free: dict[str, int], offered: list[tuple[str, int]]
):
    wanted = replace(WANTED, image="any", gpu=gpu, gpu_count=count)
    choices = find_alternatives(wanted, DEMO, fits=lambda each: each.gpu_count <= free.get(each.gpu, 0))
    assert [(each.gpu, each.gpu_count) for each in choices] == offered


def test_another_vendor_comes_last_and_only_where_the_image_can_use_it():
    one = replace(WANTED, image="any", gpu_count=1)
    assert list_other_types(one, CATALOG)[-1].slug == "mi210"
    assert found(WANTED, lambda choice: choice.gpu == "mi210") == []


def test_an_image_that_a_person_named_stays_and_goes_with_every_type():
    own = replace(WANTED, image="", custom_image="quay.io/x:1", gpu_count=1)
    assert found(own, lambda choice: choice.gpu == "mi210") == [{"gpu": "mi210"}]
    (choice,) = find_alternatives(own, CATALOG, fits=lambda choice: choice.gpu == "mi210")
    assert choice.custom_image == "quay.io/x:1"


def test_a_type_whose_nodes_cannot_run_the_image_is_not_among_the_choices():
    platforms = (read_platform({"nvidia.com/cuda.driver-version.major": "535"}),)
    types = {slug: replace(gpu, platforms=platforms if slug == "h100" else ()) for slug, gpu in CATALOG.gpus.items()}
    new = replace(CATALOG.images["torch"], cuda="13.0")
    catalog = replace(CATALOG, images={"torch": new}, gpus=types)
    assert "h100" in {gpu.slug for gpu in list_other_types(WANTED, CATALOG)}
    assert "h100" not in {gpu.slug for gpu in list_other_types(WANTED, catalog)}


def test_a_type_whose_servers_end_sooner_is_not_among_the_choices():
    ending = replace(CATALOG.gpus["h100"], max_runtime_s=3600)
    catalog = replace(CATALOG, gpus={**CATALOG.gpus, "h100": ending})
    for run_time_s, is_one in ((None, True), (3600, True), (7200, False)):
        others = list_other_types(replace(WANTED, run_time_s=run_time_s), catalog)
        assert ("h100" in {gpu.slug for gpu in others}) is is_one


@pytest.mark.parametrize("steps", [1, 7, 1000, 10**6])
def test_a_range_of_any_size_is_searched_in_few_questions(steps: int):
    bounds = Bounds(min=1000, max=1000 + steps, step=1, default=1000)
    catalog = replace(CATALOG, cpu=bounds, gpus={})
    wanted = Selection(image="any", cpu_millis=bounds.max, memory_bytes=GIB)
    asked: list[Selection] = []
    (choice,) = find_alternatives(wanted, catalog, fits=lambda each: asked.append(each) or True)
    assert choice.cpu_millis in range(bounds.max - 1 - steps // 32, bounds.max)
    assert len(asked) <= 8


amounts = st.integers(0, 64)
selections = st.builds(
    lambda image, cpu, memory, slug, count: Selection(
        image=image,
        cpu_millis=500 * cpu,
        memory_bytes=GIB * memory,
        gpu=slug,
        gpu_count=min(count, CATALOG.gpus[slug].max_count) if slug else 0,
    ),
    st.sampled_from(["any", "torch"]),
    st.integers(1, 64),
    st.integers(1, 256),
    st.sampled_from([None, "t4", "h100", "a100", "a100-mig", "l4", "old"]),
    st.integers(1, 8),
)


@given(selections, st.dictionaries(st.sampled_from([None, *CATALOG.gpus]), st.tuples(amounts, amounts, amounts)))
def test_alternatives_fit_are_new_are_valid_and_cost_few_checks(
    wanted: Selection, room: dict[str | None, tuple[int, int, int]]
):
    asked: list[Selection] = []

    def fits(choice: Selection) -> bool:
        asked.append(choice)
        cpu, memory, count = room.get(choice.gpu, (0, 0, 0))
        return (
            choice.cpu_millis <= 500 * cpu
            and choice.memory_bytes <= 4 * GIB * memory
            and choice.gpu_count <= count // 8
        )

    choices = find_alternatives(wanted, CATALOG, fits=fits)
    assert len(asked) == len(set(asked)) <= MAX_FIT_CHECKS
    assert wanted not in asked
    assert len(choices) == len(set(choices)) <= 3
    assert [each for each in choices if not fits(each)] == []
    assert [validate(build_options(each, CATALOG), CATALOG) for each in choices] == list(choices)


@given(
    st.sampled_from([slug for slug, each in CATALOG.gpus.items() if each.memory_bytes]),
    st.integers(1, 8),
    st.dictionaries(st.sampled_from(list(CATALOG.gpus)), st.integers(0, 8)),
)
@example("h100", 3, {"mi210": 2, "t4": 4, "h100": 1, "a100": 1})
def test_less_than_half_of_the_gpu_memory_is_offered_only_where_nothing_nearer_is_free(
    slug: str, count: int, free: dict[str, int]
):
    def memory(choice: Selection) -> int:
        return choice.gpu_count * (CATALOG.gpus[choice.gpu].memory_bytes or 0)

    count = min(count, CATALOG.gpus[slug].max_count)
    wanted = replace(WANTED, image="any", gpu=slug, gpu_count=count)
    free = {**free, slug: min(free.get(slug, 0), count - 1)}
    choices = find_alternatives(wanted, CATALOG, fits=lambda each: each.gpu_count <= free.get(each.gpu, 0))
    smaller = [each for each in choices if 0 < 2 * memory(each) < memory(wanted)]
    assert smaller in ([], list(choices))
    if smaller:
        nearest = max(
            (min(free[other], entry.max_count) * (entry.memory_bytes or 0) for other, entry in CATALOG.gpus.items()
             if other in free and (entry.unit is UnitKind.CARD or other == slug)), default=0,
        )  # fmt: skip
        assert 2 * nearest < memory(wanted)


@given(selections, st.randoms(use_true_random=False))
def test_answers_that_make_no_sense_do_no_harm(wanted: Selection, random: Any):
    yes: list[Selection] = []

    def fits(choice: Selection) -> bool:
        answer = random.random() < 0.2
        yes.extend([choice] if answer else [])
        return answer

    assert set(find_alternatives(wanted, CATALOG, fits=fits)) <= set(yes)
