from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Bounds, Catalog, CustomImages, GPUType, Image, Preset, UnitKind
from gpuspawner.core.catalog.policy_model import ANY, GPUTypeRule, Person, Policy, Rule
from gpuspawner.core.catalog.software import index_images
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.build import LiveState
from gpuspawner.core.form.encoding import encode_view
from gpuspawner.core.policy.allowance import resolve_allowance
from gpuspawner.core.policy.usage import ServerUsage, Usage
from gpuspawner.core.request.field_definitions import Priority
from gpuspawner.core.request.selection import validate
from gpuspawner.core.verdict.availability import Availability, FreeShape, NodeShare
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.warnings.wording import WarningsView, WarningView
from tests.unit.islands import build_view

GIB = 1 << 30
JS_TESTS = Path(__file__).resolve().parents[2] / "js"

A100 = GPUType(
    slug="a100-80gb",
    display_name="A100 80 GB",
    resource="nvidia.com/gpu",
    vendor="nvidia",
    match={"nvidia.com/gpu.product": ("NVIDIA-A100-SXM4-80GB",)},
    max_count=4,
    memory_bytes=80 * GIB,
    new_nodes=False,
)
MI210 = GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd", max_count=2, new_nodes=False)
CATALOG = Catalog(
    images={
        "pytorch": Image(slug="pytorch", display_name="PyTorch", image="pytorch:1", vendors=("nvidia",)),
        "plain": Image(slug="plain", display_name="Plain Python", image="plain:1"),
    },
    cpu=Bounds(min=500, max=32_000, step=500, default=2000),
    memory=Bounds(min=GIB // 2, max=256 * GIB, step=GIB // 2, default=8 * GIB),
    gpus={"a100-80gb": A100, "mi210": MI210},
    presets={
        "train": Preset(
            slug="train",
            display_name="Training",
            options={"image": "pytorch", "cpu": 8, "memory": "64G", "gpu": "a100-80gb", "gpu_count": 2},
        ),
        "small": Preset(slug="small", display_name="Small", options={"image": "plain", "cpu": 1, "memory": "512M"}),
    },
    custom_images=CustomImages(),
    run_time=Bounds(min=900, max=72 * 3600, step=900, default=8 * 3600),
    shared_memory=Bounds(min=GIB // 4, max=64 * GIB, step=GIB // 4, default=GIB // 4),
    choices={
        "priority": {
            "normal": Priority(slug="normal", display_name="Normal", priority_class="site-normal", value=100),
            "low": Priority(slug="low", display_name="Low", priority_class="site-low", value=-10),
        }
    },
)
NODES = (
    Node(
        name="a",
        labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        allocatable={"nvidia.com/gpu": 4, "pods": 110},
        capacity={"nvidia.com/gpu": 4},
    ),
    Node(name="b", allocatable={"amd.com/gpu": 2, "pods": 110}, capacity={"amd.com/gpu": 2}),
)
PODS = (Pod(name="p", namespace="n", node="a", requests={"nvidia.com/gpu": 3}),)
INVENTORY = Inventory(occupancy=Occupancy.build(NODES, PODS), age_s=2.5)
LIVE = LiveState(
    availabilities=(
        Availability(
            total=5,
            healthy=4,
            free=1,
            largest=1,
            waiting=2,
            shapes=(FreeShape(cpu_millis=4000, memory_bytes=16 * GIB, gpu_count=1),),
            largest_shapes=(FreeShape(cpu_millis=32_000, memory_bytes=256 * GIB, gpu_count=4),),
            share=NodeShare(cpu_millis=7600, memory_bytes=60 * GIB),
        ),
        Availability(
            total=2,
            healthy=2,
            free=0,
            largest=0,
            waiting=0,
            shapes=(),
            largest_shapes=(FreeShape(cpu_millis=16_000, memory_bytes=64 * GIB, gpu_count=2),),
        ),
    ),
    verdict=Verdict(outcome=Outcome.WAITS, reason="Only 1 of 5 is free.", ahead=2),
    alternatives=(validate({"gpu": "a100-80gb"}, CATALOG),),
    presets={"small": Verdict(outcome=Outcome.NOW, places=3)},
)

POLICY = Policy(default=Rule(gpus={"mi210": GPUTypeRule(max_runtime_s=24 * 3600), ANY: GPUTypeRule()}, max_gpus=8))
USAGE = Usage(own=(ServerUsage(owner="ada", name="other", gpu="mi210", count=1),))
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
LASTS = "up to 8 hours"


def types_of(catalog: Catalog, inventory: Inventory = INVENTORY):
    view = build_view(catalog, inventory)
    return {gpu.slug: gpu for vendor in view.vendors for gpu in vendor.types}


def test_errors_stand_in_the_order_of_the_fields():
    names = ["image", "priority", "memory", "gpu_count", "cpu", "gpu"]
    problems = tuple(Problem(field=name, code="", message=name) for name in names)
    view = build_view(CATALOG, INVENTORY, typed={"image": "x"}, problems=problems)
    assert list(view.errors) == ["gpu", "gpu_count", "cpu", "memory", "image", "priority"]


@pytest.mark.parametrize(
    ("asked", "is_open"),
    [
        pytest.param({}, False, id="defaults"),
        pytest.param({"options": {"preset": "train"}}, False, id="preset"),
        pytest.param({"options": {"image": "plain", "cpu": 1, "memory": "512M"}}, False, id="the same as a preset"),
        pytest.param({"options": {"gpu": "a100-80gb"}}, True, id="another choice"),
        pytest.param({"options": {"image": "gone"}}, True, id="notice"),
        pytest.param({"problems": (Problem(field="cpu", code="off_step", message="Odd."),)}, True, id="error"),
    ],
)
def test_the_fields_are_open_where_there_is_something_to_see(asked: dict[str, Any], is_open: bool):
    assert build_view(CATALOG, INVENTORY, **asked).is_open is is_open


def test_the_island_is_the_one_that_the_script_is_tested_with():
    island = json.loads((JS_TESTS / "island.json").read_text())
    catalog = replace(CATALOG, policy=POLICY)
    allowed = resolve_allowance(catalog, Person(name="ada"), usage=USAGE)
    asked = {"gpu": "a100-80gb", "gpu_count": 2}
    view = build_view(catalog, INVENTORY, options=asked, live=LIVE, allowance=allowed)
    assert json.loads(json.dumps(encode_view(view))) == island


def test_the_island_does_not_hold_what_is_for_admins():
    view = build_view(CATALOG, Inventory())
    told = replace(view, flags=WarningsView(summary="GPUs", flags=(WarningView("node-1", "It is broken."),)))
    assert encode_view(told) == encode_view(view)


@pytest.mark.parametrize("case", json.loads((JS_TESTS / "sentences.json").read_text()))
def test_the_sentence_is_the_one_that_the_script_writes(case: dict[str, Any]):
    assert build_view(CATALOG, INVENTORY, typed=case["values"]).summary == case["sentence"]


def test_a_pinned_down_form_has_no_cpu_and_memory_in_its_sentence():
    pinned = replace(CATALOG, cpu=None, memory=None, run_time=None, shared_memory=None, presets={})
    view = build_view(pinned, INVENTORY)
    assert view.summary == "PyTorch · no GPU"


@pytest.mark.parametrize(("written", "is_wrong"), [("", False), ("python", False), ("Python", True)])
def test_the_page_shows_the_mistake_in_a_reference(written: str, is_wrong: bool):
    view = build_view(CATALOG, INVENTORY, typed={"image": "", "custom_image": written})
    island = encode_view(view)["custom_image"]
    told = {"complaint": view.custom_image.complaint, "misfits": []}
    assert (island, bool(view.custom_image.complaint)) == (told, is_wrong)


def test_the_page_shows_which_gpus_a_reference_of_a_listed_image_cannot_use():
    catalog = replace(CATALOG, custom_images=CustomImages(listed=index_images(CATALOG.images.values())))
    view = build_view(catalog, INVENTORY, typed={"image": "", "custom_image": "pytorch:1"})
    island = encode_view(view)["custom_image"]
    listed = [{"text": "pytorch:1 is made for NVIDIA GPUs.", "gpus": ("mi210",)}]
    assert island == {"complaint": "", "misfits": listed}


def test_where_only_offered_images_are_allowed_the_form_has_no_field_for_another():
    catalog = replace(CATALOG, custom_images=None)
    view = build_view(catalog, INVENTORY, typed={"image": "plain", "custom_image": "python"})
    assert (view.custom_image, encode_view(view)["custom_image"]) == (None, None)
    assert view.summary == f"Plain Python · 2 CPUs · 8 GiB RAM · no GPU · {LASTS}"
    assert build_view(catalog, INVENTORY, typed={"custom_image": "python"}).values["image"] == "pytorch"
    summary = build_view(catalog, INVENTORY, typed={"image": ""}).summary
    assert summary == f"PyTorch · 2 CPUs · 8 GiB RAM · no GPU · {LASTS}"


def test_problems_stand_at_their_fields_and_leave_no_summary():
    problems = (
        Problem(field="cpu", code="out_of_range", message="Too much."),
        Problem(field="cpu", code="off_step", message="Odd."),
        Problem(field="colour", code="unknown_field", message="There is no field 'colour'."),
    )
    view = build_view(CATALOG, INVENTORY, problems=problems)
    assert dict(view.errors) == {"cpu": "Too much. Odd.", "colour": "There is no field 'colour'."}
    assert view.summary == ""


def test_bounds_are_in_the_unit_of_the_field():
    view = build_view(CATALOG, INVENTORY)
    assert (view.cpu.min, view.cpu.max, view.cpu.step, view.cpu.default) == ("0.5", "32", "0.5", "2")
    assert (view.memory.min, view.memory.max, view.memory.step, view.memory.default) == ("0.5", "256", "0.5", "8")
    assert (view.run_time.min, view.run_time.max, view.run_time.default) == ("15m", "3d", "8h")
    assert (view.shared_memory.min, view.shared_memory.max, view.shared_memory.step) == ("0.25", "64", "0.25")


@pytest.mark.parametrize(
    ("asked", "is_open"),
    [
        pytest.param({}, False, id="defaults"),
        pytest.param({"options": {"cpu": 4}}, False, id="another field"),
        pytest.param({"options": {"run_time": "2h"}}, True, id="another run time"),
        pytest.param({"options": {"shared_memory": "2G"}}, True, id="some shared memory"),
        pytest.param({"options": {"priority": "low"}}, True, id="another priority"),
        pytest.param({"options": {"run_time": "9d"}}, True, id="notice"),
        pytest.param({"options": {"shared_memory": "9T"}}, True, id="another notice"),
        pytest.param({"problems": (Problem(field="run_time", code="off_step", message="Odd."),)}, True, id="error"),
    ],
)
def test_the_rarer_fields_are_open_where_there_is_something_to_see(asked: dict[str, Any], is_open: bool):
    assert build_view(CATALOG, INVENTORY, **asked).is_more_open is is_open
    bare = replace(CATALOG, run_time=None, shared_memory=None, choices={})
    assert build_view(bare, INVENTORY, **asked).is_more_open is False


def test_types_are_grouped_by_vendor_in_the_order_of_the_catalog():
    v100 = replace(A100, slug="v100", display_name="V100")
    view = build_view(replace(CATALOG, gpus={"mi210": MI210, "a100-80gb": A100, "v100": v100}), INVENTORY)
    groups = [(vendor.display_name, [gpu.slug for gpu in vendor.types]) for vendor in view.vendors]
    assert groups == [("AMD", ["mi210"]), ("NVIDIA", ["a100-80gb", "v100"])]


@pytest.mark.parametrize(
    ("inventory", "text"),
    [
        (INVENTORY, "1 of 4 free"),
        (Inventory(nodes=NODES), "4 in total"),
        (Inventory(), "capacity unknown"),
        (Inventory(occupancy=Occupancy.build((), ())), "none at the moment"),
    ],
)
def test_capacity_says_what_is_known_and_no_more(inventory: Inventory, text: str):
    assert types_of(CATALOG, inventory)["a100-80gb"].capacity_text == text


@pytest.mark.parametrize(
    ("inventory", "notice"),
    [
        (INVENTORY, ""),
        (Inventory(nodes=NODES, reason="No right to list pods."), "How many GPUs are free is unknown."),
        (Inventory(reason="The API server did not answer."), "GPU capacity is unknown right now."),
    ],
)
def test_unknown_capacity_is_said_with_its_reason(inventory: Inventory, notice: str):
    assert build_view(CATALOG, inventory).capacity_notice == f"{notice} {inventory.reason}".strip()


def test_a_new_count_needs_no_words_about_its_age_and_an_old_one_has_them():
    views = [build_view(CATALOG, replace(INVENTORY, age_s=age_s)) for age_s in (None, 2.5, 130.0)]
    assert [(view.age_s, view.age_text) for view in views] == [(None, ""), (2.5, ""), (130.0, "as of 2 min ago")]


@pytest.mark.parametrize(("scalable_pools", "state"), [((), "never"), (None, "none")])
def test_a_type_that_an_autoscaler_may_bring_can_be_picked(scalable_pools: Any, state: str):
    inventory = Inventory(nodes=(), occupancy=Occupancy(), scalable_pools=scalable_pools, age_s=1.0)
    gpus = encode_view(build_view(CATALOG, inventory))["gpus"]
    assert {(gpu["state"], gpu["scales"]) for gpu in gpus} == {(state, state == "none")}


@pytest.mark.parametrize(
    ("unit", "text"), [(UnitKind.CARD, "full GPU"), (UnitKind.MIG, "MIG slice"), (UnitKind.SHARED, "shared")]
)
def test_the_unit_is_in_words(unit: UnitKind, text: str):
    assert types_of(replace(CATALOG, gpus={"a100-80gb": replace(A100, unit=unit)}))["a100-80gb"].unit_text == text


def test_a_type_says_that_it_is_spot_and_what_links_its_gpus():
    told = replace(A100, spot=True, interconnect="NVLink")
    shown = types_of(replace(CATALOG, gpus={"a100-80gb": told, "mi210": MI210}))
    assert [(gpu.badges, gpu.caution[:5]) for gpu in shown.values()] == [(("NVLink", "spot"), "Spot:"), ((), "")]


def test_a_preset_holds_a_sentence_and_the_value_of_every_field():
    train, small = build_view(CATALOG, INVENTORY).presets
    assert train.summary == f"PyTorch · 8 CPUs · 64 GiB RAM · 2 × A100 80 GB · {LASTS}"
    assert dict(small.values) == {**DEFAULTS, "image": "plain", "cpu": "1", "memory": "0.5"}


def test_a_preset_whose_gpu_type_is_gone_is_not_offered():
    view = build_view(replace(CATALOG, gpus={"mi210": MI210}), INVENTORY)
    assert [preset.slug for preset in view.presets] == ["small"]


def test_a_type_whose_autoscaler_changed_is_shown_anew():
    def scales(scalable_pools: Any) -> list[object]:
        inventory = Inventory(nodes=(), occupancy=OCCUPANCY, scalable_pools=scalable_pools, age_s=1.0)
        return [each["scales"] for each in encode_view(build_view(CATALOG, inventory))["gpus"]]

    assert [any(scales(())), all(scales(None)), any(scales(()))] == [False, True, False]


OCCUPANCY = Occupancy()
