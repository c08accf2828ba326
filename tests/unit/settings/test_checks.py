from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import Bounds, GPUType, Image, Preset
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog
from gpuspawner.settings.checks import check_presets, check_settings
from gpuspawner.settings.models import SETTINGS


def found(**raw: Any) -> dict[str, str]:
    problems = check_settings(SETTINGS.validate_python(raw), frozenset({"a100"}))
    return {problem.field: problem.message for problem in problems}


def gpu(**keys: Any) -> dict[str, Any]:
    return {"g": {"resource": "nvidia.com/gpu", **keys}}


@pytest.mark.parametrize("slug", ["a", "a100-80gb", "mig-1g.5gb", "x" * 63])
def test_a_good_slug_is_no_problem(slug: str):
    assert found(images={slug: {"image": "i"}}) == {}


@pytest.mark.parametrize("slug", ["", "A100", "a b", "-a", "a-", "a/b", "<b>", "x" * 64, "a\n"])
def test_a_bad_slug_is_a_problem(slug: str):
    (message,) = found(images={slug: {"image": "i"}}).values()
    assert message.startswith("must be lower-case letters, digits, - and .")


@pytest.mark.parametrize(
    ("section", "bounds", "key", "message"),
    [
        ("cpu", {"max": 4, "min": 8}, "max", "must be at least cpu.min (8), not 4"),
        ("cpu", {"max": 4, "min": 0}, "min", "must be more than 0"),
        ("cpu", {"max": 4, "step": 0}, "step", "must be more than 0"),
        ("cpu", {"max": 4, "default": 5}, "default", "must be 0.5 to 4, not 5"),
        ("cpu", {"max": 4, "default": 0.25}, "default", "must be 0.5 to 4, not 0.25"),
        (
            "cpu",
            {"max": 4, "min": 1, "step": 1, "default": 1.5},
            "default",
            "must be cpu.min (1) plus whole steps of 1",
        ),
        ("memory", {"max": "8G", "default": "9G"}, "default", "must be 1 GiB to 8 GiB, not 9 GiB"),
        ("run_time", {"max": "4h", "default": "8h"}, "default", "must be 15 minutes to 4 hours, not 8 hours"),
        ("shared_memory", {"max": "128M"}, "max", "must be at least shared_memory.min (256 MiB), not 128 MiB"),
    ],
)
def test_bounds_must_hold_their_default(section: str, bounds: dict[str, Any], key: str, message: str):
    assert found(**{section: bounds}) == {f"{section}.{key}": message}


def test_steps_count_from_the_lower_bound():
    assert found(cpu={"min": 0.3, "max": 4, "default": 0.8}) == {}


def test_a_priority_needs_a_class_and_its_value_unless_it_is_disabled():
    priorities = {"off": {"enabled": False}, "a": {"class": "c"}, "b": {"value": 1}, "C": {"class": "c", "value": 0}}
    problems = found(priorities=priorities)
    assert problems.pop("priorities.C").startswith("must be lower-case letters")
    assert problems == {"priorities.a.value": "is required", "priorities.b.class": "is required"}


def test_an_image_needs_a_reference_unless_it_is_disabled():
    assert found(images={"a": {"enabled": False}, "b": {}}) == {"images.b.image": "is required"}


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (
            {"cuda": "12.8", "vendors": ["amd"]},
            "must include nvidia, as cuda: '12.8' says; or leave out one of the two",
        ),
        ({"rocm": "6.4", "vendors": []}, "must include amd, as rocm: '6.4' says; or leave out one of the two"),
    ],
)
def test_a_toolkit_of_a_vendor_that_is_left_out_is_refused(image: dict[str, Any], message: str):
    assert found(images={"i": {"image": "i:1", **image}}) == {"images.i.vendors": message}


@pytest.mark.parametrize(
    ("gpus", "path", "message"),
    [
        ({"g": {}}, "gpus.g.resource", "is required, such as nvidia.com/gpu"),
        ({"any": {"min_memory": "40G"}}, "gpus.any.resource", "is required, such as nvidia.com/gpu"),
        (
            {"g": {"resource": "example.com/npu"}},
            "gpus.g.vendor",
            "is required: 'example.com/npu' does not tell whose GPU it is",
        ),
        (
            gpu(environment={"NVIDIA_VISIBLE_DEVICES": "all"}),
            "gpus.g.environment.NVIDIA_VISIBLE_DEVICES",
            "must not be set: it would override which GPUs the device plugin gave the server",
        ),
        (
            gpu(environment={"HABANA_VISIBLE_DEVICES": "all"}),
            "gpus.g.environment.HABANA_VISIBLE_DEVICES",
            "must not be set: it would override which GPUs the device plugin gave the server",
        ),
        (
            gpu(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            "gpus.g.tolerations.0.value",
            "must be left out with operator Exists",
        ),
        (gpu(max_runtime="0m"), "gpus.g.max_runtime", "must be more than 0"),
        (gpu(tolerations=[{}]), "gpus.g.tolerations.0.key", "is required, unless operator is Exists"),
    ],
)
def test_what_kubernetes_or_isolation_would_break_is_refused(gpus: dict[str, Any], path: str, message: str):
    assert found(gpus=gpus) == {path: message}


def test_a_disabled_type_needs_nothing():
    assert found(gpus={"t4": {"enabled": False}}) == {}


def test_a_model_of_the_table_may_be_changed_in_one_fact_but_a_new_one_must_be_complete():
    changes = {"a100": {"memory": "80G"}, "a1000": {"memory": "80G"}}
    assert set(found(accelerators=changes)) == {
        "accelerators.a1000.name",
        "accelerators.a1000.vendor",
        "accelerators.a1000.labels",
    }


T4 = GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4)
CONFIGURED = {
    "images": {"i": Image(slug="i", display_name="I", image="i")},
    "cpu": Bounds(min=500, max=8000, step=500, default=2000),
    "gpus": {"t4": T4},
}


def preset(options: dict[str, object], **changes: Any) -> dict[str, str]:
    presets = {"p": Preset(slug="p", display_name="P", options=options)}
    configured = ConfiguredCatalog(**{**CONFIGURED, "presets": presets, **changes})
    return {problem.field: problem.code for problem in check_presets(configured)}


def test_a_preset_of_what_is_configured_is_fine():
    assert preset({"image": "i", "cpu": "8", "gpu": "t4", "gpu_count": 4}) == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"image": "x"}, {"presets.p.image": "unknown_choice"}),
        ({"cpu": "16"}, {"presets.p.cpu": "out_of_range"}),
        ({"cpu": "0.75"}, {"presets.p.cpu": "off_step"}),
        ({"gpu": "t4", "gpu_count": 5}, {"presets.p.gpu_count": "out_of_range"}),
        ({"gpu_count": 1}, {"presets.p.gpu_count": "conflict"}),
        ({"run_time": "8h"}, {"presets.p.run_time": "unknown_field"}),
        ({"shared_memory": "1G"}, {"presets.p.shared_memory": "unknown_field"}),
        ({"priority": "low"}, {"presets.p.priority": "unknown_choice"}),
    ],
)
def test_a_preset_passes_the_rules_of_user_options(options: dict[str, object], expected: dict[str, str]):
    assert preset(options) == expected


def test_a_preset_may_say_for_how_long():
    bounds = Bounds(min=900, max=7200, step=900, default=3600)
    assert preset({"run_time": "2h"}, run_time=bounds) == {}
    assert preset({"run_time": "8h"}, run_time=bounds) == {"presets.p.run_time": "out_of_range"}


def test_a_preset_may_name_a_gpu_that_nodes_may_bring():
    assert preset({"gpu": "h100"}) == {}


@pytest.mark.parametrize("changes", [{"discover": False}, {"hidden": frozenset({"h100"})}])
def test_a_preset_must_not_name_a_gpu_that_no_node_can_bring(changes: dict[str, Any]):
    assert preset({"gpu": "h100"}, **changes) == {"presets.p.gpu": "unknown_choice"}


def test_a_count_that_nodes_decide_is_not_judged():
    assert preset({"gpu": "t4", "gpu_count": 8}, uncounted=frozenset({"t4"})) == {}


def test_a_choice_of_several_types_needs_no_resource_of_its_own():
    assert found(gpus={**gpu(), "any": {"any_of": ["g"]}}) == {}


def _either(*any_of: str, **changes: Any) -> dict[str, GPUType]:
    return {"any": replace(T4, slug="any", any_of=any_of, **{"max_count": 0, **changes})}


@pytest.mark.parametrize(
    ("unions", "changes", "expected"),
    [
        (_either("t4"), {"discover": False}, {"presets.p.gpu_count": "out_of_range"}),
        (_either("t4"), {"discover": False, "uncounted": frozenset({"t4", "any"})}, {}),
        (_either("t4", max_count=8), {"discover": False}, {}),
        (_either("t4", "l4"), {}, {}),
        (_either("l4"), {}, {}),
    ],
)
def test_a_preset_may_name_a_choice_of_several_types(
    unions: dict[str, GPUType], changes: dict[str, Any], expected: dict[str, str]
):
    assert preset({"gpu": "any", "gpu_count": 8}, unions=unions, **changes) == expected


QUEUE = {"local_queue": "q"}


@pytest.mark.parametrize(
    "settings",
    [
        {"queue": QUEUE},
        {"queue": {**QUEUE, "gpus": ["*"]}, "discover_gpus": False},
        {"queue": {**QUEUE, "gpus": ["g"]}, "gpus": gpu(), "discover_gpus": False},
        {"queue": {**QUEUE, "gpus": ["of-some-node"]}},
    ],
)
def test_a_queue_is_for_types_that_there_may_be(settings: dict[str, Any]):
    assert found(**settings) == {}


def test_a_queue_for_a_type_that_is_not_offered_is_a_problem():
    settings = {"queue": {**QUEUE, "gpus": ["*", "gg"]}, "gpus": gpu(), "discover_gpus": False}
    assert found(**settings) == {"queue.gpus.1": "there is no GPU type 'gg'. Did you mean 'g'?"}
