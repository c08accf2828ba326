"""The data for the page's script agrees with templates/island.schema.json, whatever the form shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gpuspawner._resources import data_dir
from gpuspawner.core.catalog.combined_types import combine_types
from gpuspawner.core.catalog.model import Bounds, Catalog, GPUType, Image, Platform, Preset, ScaleUp, UnitKind
from gpuspawner.core.catalog.policy_model import GPUTypeRule, Person, Policy, Rule
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.build import LiveState
from gpuspawner.core.policy.allowance import Allowance, resolve_allowance
from gpuspawner.core.policy.usage import ServerUsage, sum_usage
from gpuspawner.core.request.field_definitions import CLOSED_CHOICES, FORM_FIELDS, Priority
from gpuspawner.core.request.selection import validate
from gpuspawner.core.verdict.availability import Availability, FreeShape
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.hostile import JSON
from tests.unit.islands import SCHEMA, build_view, faults, island_of

GIB = 1 << 30
SAMPLE = json.loads((Path(__file__).resolve().parents[2] / "js" / "island.json").read_text())

CARD = GPUType(
    slug="a100",
    display_name="A100",
    resource="nvidia.com/gpu",
    vendor="nvidia",
    max_count=8,
    memory_bytes=80 * GIB,
    platforms=(Platform(compute=(8, 0)),),
)
SLICE = GPUType(
    slug="slice",
    display_name="A100 (MIG 1g.5gb)",
    resource="nvidia.com/mig-1g.5gb",
    vendor="nvidia",
    unit=UnitKind.MIG,
    memory_bytes=4864 << 20,
)
SHARED = GPUType(slug="part", display_name="T4", resource="nvidia.com/gpu.shared", vendor="own", unit=UnitKind.SHARED)
SCALING = replace(CARD, slug="h100", scale_up=ScaleUp(max_nodes=2, gpus_per_node=8, minutes=6))
EITHER = combine_types(replace(CARD, slug="any", any_of=("a100", "h100")), {"a100": CARD, "h100": SCALING})
TYPES = tuple(gpu for gpu in (CARD, SLICE, SHARED, SCALING, EITHER) if gpu is not None)
BARE = Catalog(images={"i": Image(slug="i", display_name="I", image="i:1")}, cpu=None, memory=None)
FULL = Catalog(
    images={
        "cuda": Image(slug="cuda", display_name="CUDA", image="c:1", cuda="13.0"),
        "cpu": Image(slug="cpu", display_name="CPU", image="p:1", vendors=()),
    },
    cpu=Bounds(min=100, max=32_300, step=500, default=600, guarantee=0.5),
    memory=Bounds(min=GIB // 3, max=256 * GIB, step=1, default=GIB),
    run_time=Bounds(min=60, max=2**31 - 8, step=60, default=3600),
    shared_memory=Bounds(min=GIB // 3, max=64 * GIB, step=1, default=GIB // 3),
    choices={"priority": {"low": Priority(slug="low", display_name="Low", priority_class="site-low", value=-10)}},
    gpus={gpu.slug: gpu for gpu in TYPES},
    presets={
        "small": Preset(slug="small", display_name="Small", options={"cpu": 0.1}),
        "train": Preset(slug="train", display_name="Train", options={"gpu": "a100", "gpu_count": 8}),
    },
)
AMOUNTS = {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.5gb": 7, "cpu": 64_000, "memory": 256 * GIB, "pods": 110}
NODES = (Node(name="a", allocatable=AMOUNTS, capacity=AMOUNTS | {"nvidia.com/gpu": 9}),)
PODS = (Pod(name="p", namespace="n", node="a", requests={"nvidia.com/gpu": 3, "memory": 300 * GIB}),)
INVENTORY = Inventory(occupancy=Occupancy.build(NODES, PODS), age_s=0.5)
HUGE = Availability(
    total=10**15,
    healthy=10**15,
    free=10**15,
    largest=10**9,
    waiting=10**12,
    shapes=(FreeShape(cpu_millis=10**12, memory_bytes=1 << 60, gpu_count=10**9),),
    largest_shapes=(FreeShape(cpu_millis=10**12, memory_bytes=1 << 60, gpu_count=10**9),),
)
LIMITED = replace(
    FULL,
    policy=Policy(
        default=Rule(
            images=("cuda",),
            custom_images=False,
            gpus={"h100": GPUTypeRule(max_runtime_s=1800), "slice": GPUTypeRule()},
            max_gpus=6,
        ),
        groups={"ml": Rule(gpus={"*": GPUTypeRule()})},
    ),
)
ENDING = replace(FULL, gpus={"a100": replace(CARD, max_runtime_s=600)}, run_time=None)


def limits_of(*servers: ServerUsage, groups: frozenset[str] | None = frozenset({"ml"})) -> Allowance:
    usage = sum_usage("ada", servers, excluding="")
    return resolve_allowance(LIMITED, Person(name="ada", groups=groups), usage=usage)


FORMS: dict[str, tuple[Catalog, Inventory, dict[str, Any]]] = {
    "nothing but an image": (BARE, Inventory(), {}),
    "an empty cluster": (FULL, Inventory(occupancy=Occupancy.build((), ()), age_s=1.0), {}),
    "nothing known": (FULL, Inventory(reason="The cluster cannot be reached."), {}),
    "nodes known, pods not": (FULL, Inventory(nodes=NODES, reason="The hub may not list pods."), {}),
    "cards, slices, shares and a choice of several": (FULL, INVENTORY, {}),
    "counts of a day ago": (FULL, replace(INVENTORY, age_s=86_400.0), {}),
    "huge counts": (FULL, INVENTORY, {"live": LiveState(availabilities=(HUGE,) * len(TYPES))}),
    "presets with an outlook": (
        FULL,
        INVENTORY,
        {"live": LiveState(presets={"small": Verdict(outcome=Outcome.NOW), "train": Verdict(outcome=Outcome.NEVER)})},
    ),
    "a verdict with alternatives": (
        FULL,
        INVENTORY,
        {
            "options": {"gpu": "a100", "gpu_count": 8},
            "live": LiveState(
                verdict=Verdict(outcome=Outcome.WAITS, reason="All are taken.", ahead=2),
                alternatives=(validate({"gpu": "slice"}, FULL), validate({}, FULL)),
            ),
        },
    ),
    "a link with a preset": (FULL, INVENTORY, {"typed": {"preset": "train", "memory": "<b>"}}),
    "errors": (
        FULL,
        INVENTORY,
        {
            "typed": dict.fromkeys(FORM_FIELDS, "'\"</script> "),
            "problems": (Problem(field="cpu", code="bad_value", message="Odd."),),
        },
    ),
    "limits": (
        LIMITED,
        INVENTORY,
        {"options": {"gpu": "h100"}, "allowance": limits_of(ServerUsage(owner="ada", name="b", gpu="a100", count=5))},
    ),
    "limits of which none is left": (
        LIMITED,
        INVENTORY,
        {"allowance": limits_of(ServerUsage(owner="ada", name="b", gpu="a100", count=8))},
    ),
    "nothing may be started": (LIMITED, INVENTORY, {"allowance": limits_of(groups=None)}),
    "a type that ends": (ENDING, INVENTORY, {}),
    "a choice that is gone": (FULL, INVENTORY, {"options": {"image": "gone", "gpu": "gone", "gpu_count": 3}}),
}


@pytest.mark.parametrize(("catalog", "inventory", "asked"), FORMS.values(), ids=FORMS)
def test_the_script_gets_what_the_schema_says(catalog: Catalog, inventory: Inventory, asked: dict[str, Any]):
    assert faults(island_of(build_view(catalog, inventory, **asked))) == []


COUNTS = st.none() | st.integers(0, 10**15)
SHAPES = st.none() | st.lists(
    st.builds(
        FreeShape,
        cpu_millis=st.integers(0, 10**9),
        memory_bytes=st.integers(0, 1 << 60),
        gpu_count=st.integers(1, 10**6),
    ),
    max_size=3,
).map(tuple)
AVAILABILITIES = st.builds(
    Availability,
    **dict.fromkeys(("total", "healthy", "free", "largest", "waiting", "own"), COUNTS),
    shapes=SHAPES,
    largest_shapes=SHAPES,
)
MINUTES = st.none() | st.floats(0.1, 1e6)
VERDICTS = st.builds(
    Verdict, outcome=st.sampled_from(Outcome), places=COUNTS, ahead=COUNTS, minutes=MINUTES, reason=st.text(max_size=9)
)
CHOICES = st.sampled_from([validate({}, FULL), validate({"gpu": "a100", "gpu_count": 8}, FULL)])
LIVES = st.builds(
    LiveState,
    availabilities=st.tuples(*(AVAILABILITIES for _ in TYPES)),
    verdict=st.none() | VERDICTS,
    alternatives=st.lists(CHOICES, max_size=2).map(tuple),
    presets=st.dictionaries(st.sampled_from(["small", "train", "gone"]), VERDICTS),
)


@given(
    options=JSON | st.dictionaries(st.sampled_from(["preset", *FORM_FIELDS]), JSON),
    typed=st.none() | st.dictionaries(st.sampled_from(FORM_FIELDS), st.text(max_size=9)),
    live=LIVES,
    age_s=st.none() | st.floats(0, 1e12),
)
def test_the_script_gets_what_the_schema_says_of_anything(
    options: Any, typed: Any, live: LiveState, age_s: float | None
):
    view = build_view(FULL, replace(INVENTORY, age_s=age_s), options=options, typed=typed, live=live)
    assert faults(island_of(view)) == []


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def test_the_sample_that_the_script_is_tested_with_is_what_the_schema_says():
    assert faults(SAMPLE) == []


def objects(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all objects in a JSON value."""
    if isinstance(value, dict):
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from objects(each, *path, key)


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


NAMES_OF_CHOICES = {each.name for each in CLOSED_CHOICES}
EVERY_OBJECT = list(objects(SAMPLE))


def test_an_object_of_the_schema_has_each_of_its_members_and_no_other():
    kinds = {"": SCHEMA, **{name: kind for name, kind in SCHEMA["$defs"].items() if "properties" in kind}}
    loose = {name for name, kind in kinds.items() if kind.get("additionalProperties") is not False}
    partial = {name for name, kind in kinds.items() if set(kind["required"]) != set(kind["properties"])}
    # A site's own entries make fields beside the form's.
    assert (loose, partial) == ({"values", "preset"}, set())


def test_a_preset_has_the_values_that_a_form_has():
    values, preset = (list(SCHEMA["$defs"][each]["properties"]) for each in ("values", "preset"))
    assert ["slug", "outlook", *values] == preset


def test_the_sample_has_an_object_of_every_kind():
    found = {tuple(sorted(at(SAMPLE, path))) for path in EVERY_OBJECT}
    found = {tuple(name for name in names if name not in NAMES_OF_CHOICES) for names in found}
    # tests/unit/core/form/test_encoding.py has profiles.
    kinds = [SCHEMA, *(each for name, each in SCHEMA["$defs"].items() if "properties" in each and name != "profile")]
    assert found == {tuple(sorted(kind["properties"])) for kind in kinds}


def test_every_member_says_what_it_is():
    kinds = {"": SCHEMA, **SCHEMA["$defs"]}
    assert [
        (kind, name)
        for kind, schema in kinds.items()
        for name, member in schema.get("properties", {}).items()
        if not member.get("description")
    ] == []


def test_server_script_and_schema_are_of_one_version():
    script = (data_dir("templates") / "display.js").read_text()
    (version,) = re.findall(r"^const VERSION = (\d+);$", script, re.MULTILINE)
    assert (build_view(BARE, Inventory()).version, int(version)) == (SCHEMA["properties"]["version"]["const"],) * 2
