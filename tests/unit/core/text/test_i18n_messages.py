"""All text for users is in their language: only names, numbers and units stand outside of a message."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE
from gpuspawner.core.catalog.model import (
    Bounds,
    Catalog,
    CustomImages,
    GPUType,
    Image,
    Platform,
    ScaleUp,
    UnitKind,
)
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.build import LiveState, build_view, find_type_state
from gpuspawner.core.form.fields import fill_fields
from gpuspawner.core.form.wording import format_details
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.options import parse_form, parse_query
from gpuspawner.core.request.selection import OPTION_FIELDS, validate
from gpuspawner.core.text.i18n import use_language
from gpuspawner.core.verdict.availability import Availability
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict, format_verdict_label
from tests.unit.core.verdicts import FULL, GROWING, T4, inventory, judged, node, pod
from tests.unit.pseudo import PSEUDO, bare

GIB = 1 << 30
HOUR = 3600
# The admin's own words have no letters, so that every letter is ours.
CARD = replace(T4, display_name="7", max_count=4, memory_bytes=16 * GIB, spot=True)
ONE = GPUType(
    slug="one", display_name="1", resource="nvidia.com/gpu", vendor="nvidia", match={"k": ("1",)}, max_count=1
)
OLD = replace(ONE, slug="old", display_name="2", platforms=(Platform(driver=525, labels=(("k", "1"),)),))
CATALOG = Catalog(
    images={
        "plain": Image(slug="plain", display_name="3", image="i"),
        "amd": Image(slug="amd", display_name="4", image="i", vendors=("amd", "intel")),
        "none": Image(slug="none", display_name="5", image="i", vendors=()),
        "cuda": Image(slug="cuda", display_name="6", image="i", cuda="13.0"),
    },
    cpu=Bounds(min=500, max=32_000, step=500, default=2000),
    memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=8 * GIB),
    gpus={"t4": CARD, "one": ONE, "old": OLD},
    custom_images=CustomImages(registries=("quay.io",)),
    run_time=Bounds(min=HOUR, max=72 * HOUR, step=HOUR, default=50 * HOUR),
    shared_memory=Bounds(min=GIB, max=64 * GIB, step=GIB, default=GIB),
    choices={
        "priority": {
            slug: Priority(slug=slug, display_name=name, priority_class=slug, value=0)
            for slug, name in {"01": "8", "02": "9"}.items()
        }
    },
)
BARE = replace(CATALOG, cpu=None, run_time=None, custom_images=None, gpus={})
# Units, and the names of fields, values and offers as they are written in JSON.
NAMES = (
    *OPTION_FIELDS,
    "start_preset",
    "true",
    *CATALOG.images,
    *CATALOG.gpus,
    "AMD",
    "Intel",
    EXAMPLE_REFERENCE,
    "quay.io",
)
CODE = re.compile(rf"[KMGT]iB|\b[0-9][0-9dhmGT]*|\b({'|'.join(map(re.escape, NAMES))})\b")

WRONG: list[dict[str, Any]] = [
    {"image": "x", "cpu": "x", "memory": "x", "gpu": "x", "run_time": "x", "shared_memory": "x", "priority": "x"},
    {
        "image": 1,
        "cpu": [],
        "memory": {},
        "gpu": 1,
        "gpu_count": "x",
        "run_time": [],
        "shared_memory": True,
        "priority": 1,
    },
    {"image": "x" * 300, "cpu": "x" * 300, "gpu": "x" * 300, "preset": "x", "gpu_count": 1e99},
    {"cpu": 0.1, "memory": "100G", "gpu": "t4", "gpu_count": 9, "run_time": "90m", "shared_memory": "16G", "v": 7},
    {"cpu": 0.0001, "memory": "1.5G", "gpu": "one", "gpu_count": 2, "run_time": "30s", "colour": 1, "imag": 2},
    {"gpu_count": 3, "image": "plain", "custom_image": "quay.io/a:b", "cpu": -1, "memory": "99999999T"},
    {"custom_image": "A b"},
    {"custom_image": "docker.io/a:b"},
    {"custom_image": 1},
    {"custom_image": "x" * 900},
    {"gpu": "t4", "image": "amd"},
    {"gpu": "t4", "image": "none"},
    {"gpu": "old", "image": "cuda"},
]


def letters(text: str) -> str:
    return "".join(re.findall("[A-Za-z]+", CODE.sub("", bare(text))))


@pytest.mark.parametrize("options", WRONG)
@pytest.mark.parametrize("catalog", [CATALOG, replace(CATALOG, cpu=None, run_time=None, custom_images=None, gpus={})])
def test_every_refusal_is_a_message(options: dict[str, Any], catalog: Catalog):
    with use_language(PSEUDO), pytest.raises(SelectionError) as refused:
        validate(options, catalog)
    assert {problem.field: letters(problem.message) for problem in refused.value.problems} == {
        problem.field: "" for problem in refused.value.problems
    }


@pytest.mark.parametrize(
    ("read", "sent"),
    [
        (parse_form, {"image": ["a", "b"], "cpu": [1], "colour": ["x"], "memory": ["9" * 900]}),
        (parse_form, {"image": [""], "custom_image": [""]}),
        (parse_query, {"opt-cpu": ["1"], "cpu": ["1"]}),
    ],
)
def test_every_refusal_of_a_form_is_a_message(read: Any, sent: dict[str, Any]):
    with use_language(PSEUDO), pytest.raises(SelectionError) as refused:
        read(sent)
    assert [letters(problem.message) for problem in refused.value.problems] == [""] * len(refused.value.problems)


VERDICTS = [
    Verdict(outcome=Outcome.NOW),
    Verdict(outcome=Outcome.NOW, places=1),
    Verdict(outcome=Outcome.NOW, places=3, places_exact=False),
    Verdict(outcome=Outcome.AFTER_SCALE_UP),
    Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=0.5, ahead=1, is_sure=False),
    Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=200, ahead=3),
    Verdict(outcome=Outcome.WAITS),
    Verdict(outcome=Outcome.WAITS, ahead=0),
    Verdict(outcome=Outcome.WAITS, ahead=2),
    Verdict(outcome=Outcome.NEVER),
    Verdict(outcome=Outcome.UNKNOWN),
    Verdict(outcome=Outcome.UNKNOWN, age_s=100.0),
    Verdict(outcome=Outcome.UNKNOWN, age_s=10_000.0),
]
BUSY = replace(pod("a", 0, on="n"), requests={"cpu": 63_000})
CASES = {
    "in use": (pod(), [node()], {"pods": FULL, "gpu": CARD}),
    "in use, any": (
        pod(gpus=0),
        [node(gpus=0)],
        {"pods": (pod("a", 0, on="n", requests={"cpu": 63_000}),), "gpu": None},
    ),
    "too many": (pod(gpus=8), [node()], {"gpu": CARD}),
    "too large": (replace(pod(), requests={"cpu": 99_000, "nvidia.com/gpu": 1}), [node()], {"gpu": CARD}),
    "both": (replace(pod(), requests={"cpu": 99_000, "memory": 999 * GIB}), [node()], {"gpu": None}),
    "none there": (pod(), [], {"gpu": CARD}),
    "none at all": (pod(gpus=0), [], {"gpu": None}),
    "broken": (pod(), [node(allocatable={**node().allocatable, "nvidia.com/gpu": 0})], {"gpu": CARD}),
    "closed": (pod(), [node(unschedulable=True)], {"gpu": CARD}),
    "a new node": (pod(), [node()], {"pods": FULL, "gpu": replace(GROWING, display_name="7")}),
    "old": (pod(), [node()], {"age_s": 200.0}),
    "undecided": (
        replace(pod(), constraints=replace(pod().constraints, unread_claims=("c",))),
        [node()],
        {"gpu": CARD},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_reason_is_a_message(case: tuple[Any, Any, dict[str, Any]]):
    wanted, nodes, options = case
    with use_language(PSEUDO):
        found = judged(wanted, *nodes, **options)
        assert (found.outcome is not Outcome.NOW, letters(format_verdict(found))) == (True, "")


@pytest.mark.parametrize("found", VERDICTS, ids=repr)
@pytest.mark.parametrize("reason", ["", "7."])
def test_every_verdict_is_a_message(found: Verdict, reason: str):
    with use_language(PSEUDO):
        said = (format_verdict(replace(found, reason=reason)), format_verdict_label(found))
    assert [letters(text) for text in said] == ["", ""]


@pytest.mark.parametrize("total", [None, 0, 1, 8])
@pytest.mark.parametrize("healthy", [None, 0, 1, 7])
@pytest.mark.parametrize("free", [None, 0, 1, 7])
def test_every_count_is_a_message(total: int | None, healthy: int | None, free: int | None):
    available = Availability(total=total, healthy=healthy, free=free, largest=2, own=free, waiting=3)
    growing = replace(CARD, scale_up=ScaleUp(max_nodes=1, gpus_per_node=1, minutes=6))
    with use_language(PSEUDO):
        texts = [
            find_type_state(CARD, available)[1],
            find_type_state(growing, available)[1],
            format_details(CARD, available),
        ]
    assert [letters(text) for text in texts] == ["", "", ""]


SAVED: list[dict[str, Any]] = [
    {"image": "0", "cpu": 99, "memory": "99G", "gpu": "0", "run_time": "1m", "shared_memory": "9T", "priority": "0"},
    {"custom_image": "0 0", "gpu": "one", "gpu_count": 7},
    {"v": 99},
    {"gpu": "t4", "gpu_count": 2, "priority": "02", "shared_memory": "1G"},
    {"gpu": "t4", "image": "amd"},
]


@pytest.mark.parametrize("saved", SAVED)
@pytest.mark.parametrize("unit", UnitKind)
@pytest.mark.parametrize("known", [inventory(node()), Inventory(reason=""), replace(inventory(node()), age_s=99.0)])
def test_the_whole_form_is_in_messages(saved: dict[str, Any], unit: UnitKind, known: Inventory):
    catalog = replace(CATALOG, gpus={**CATALOG.gpus, "t4": replace(CARD, unit=unit, vendor="nvidia")})
    with use_language(PSEUDO):
        view = build_view(
            catalog, known, filled=fill_fields(catalog, options=saved), live=LiveState(verdict=VERDICTS[2])
        )
    (vendor,) = view.vendors
    texts = [view.summary, view.capacity_notice, view.age_text, view.verdict.sentence if view.verdict else ""]
    texts += [*view.notices.values(), *(image.made_for for image in view.images)]
    texts += [misfit.text for image in view.images for misfit in image.misfits]
    texts += [view.custom_image.help, view.custom_image.card.display_name, view.custom_image.card.description]
    for gpu in vendor.types:
        texts += [gpu.unit_text, gpu.capacity_text, gpu.details_text, gpu.reason, *gpu.badges, gpu.caution]
    assert [letters(text) for text in texts] == [""] * len(texts)
