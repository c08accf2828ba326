from __future__ import annotations

from typing import Any

import pytest
from gpuspawner.settings.profiles.variants import ProfileVariant

from gpuspawner.settings.profiles.profile_gpus import (
    ProfileGPUs,
    describe_lost_parts,
    find_unplaced_traits,
    make_unique_slug,
)

T4 = {"extra_resource_limits": {"nvidia.com/gpu": 1}, "node_selector": {"nvidia.com/gpu.product": "Tesla-T4"}}
TYPE = {
    "display_name": "T4",
    "resource": "nvidia.com/gpu",
    "match": {"nvidia.com/gpu.product": ["Tesla-T4"]},
    "max_count": 1,
}
LEFT_OUT = "left out: with braces, or no text, which here is the same for everybody; set it on KubeSpawner for all."


def variant(name: str = "P", **overrides: Any) -> ProfileVariant:
    return ProfileVariant(name=name, overrides=overrides)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ({"tolerations": [{"key": "a", "operator": "Exists"}]}, {"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ({"tolerations": {"x": {"key": "a"}}}, {"tolerations": [{"key": "a"}]}),
        ({"environment": {"A": 1, "B": True}}, {"environment": {"A": "1", "B": "true"}}),
        ({"extra_pod_config": {"runtimeClassName": "nvidia"}}, {"runtime_class": "nvidia"}),
        ({"start_timeout": 1200}, {"start_timeout": 1200}),
    ],
)
def test_what_differs_on_the_same_nodes_makes_a_type_of_its_own(override: dict[str, Any], told: dict[str, Any]):
    notes: list[str] = []
    gpus = ProfileGPUs(notes)
    taken = [gpus.add_variant(each)["gpu"] for each in (variant(**T4), variant("Q", **T4, **override), variant(**T4))]
    assert (taken, notes) == (["t4", "t4-2", "t4"], [])
    assert gpus.types == {"t4": TYPE, "t4-2": {**TYPE, "display_name": "T4 (Q)", **told}}


def test_what_is_null_is_passed_over():
    gpus = ProfileGPUs([])
    nothing = variant(
        extra_resource_limits=T4["extra_resource_limits"],
        node_selector={**T4["node_selector"], "pool": None},
        environment={"A": None},
        extra_pod_config={"runtimeClassName": None},
        tolerations=None,
        start_timeout=None,
    )
    assert (gpus.add_variant(nothing), gpus.types) == ({"gpu": "t4", "gpu_count": 1}, {"t4": TYPE})
    assert list(describe_lost_parts(nothing)) == []


def test_variables_that_are_made_at_the_start_are_named_without_their_values():
    environment = {"HOME": "/home/{username}", "B": {"valueFrom": {}}, "C": '{"a": "secret"}', "D": "d"}
    with_gpu = variant(**T4, environment=environment)
    gpus = ProfileGPUs([])
    gpus.add_variant(with_gpu)
    assert gpus.types["t4"]["environment"] == {"D": "d"}
    assert list(describe_lost_parts(with_gpu)) == [f"P: environment B, C, HOME {LEFT_OUT}"]


@pytest.mark.parametrize(
    ("override", "note"),
    [
        ({"tolerations": [{"key": "a", "tolerationSeconds": 30}]}, "of tolerations only key, operator, value, effect"),
        ({"tolerations": ["a"]}, "of tolerations only key, operator, value, effect are kept."),
        ({"tolerations": "a"}, "tolerations is none that could be read, which is left out."),
        ({"start_timeout": "900"}, "start_timeout is none that could be read, which is left out."),
        ({"environment": ["a"]}, "environment is none that could be read, which is left out."),
        ({"node_selector": "a"}, "node_selector is none that could be read, which is left out."),
    ],
)
def test_what_a_type_cannot_hold_is_said(override: dict[str, Any], note: str):
    (told,) = describe_lost_parts(variant(**{**T4, **override}))
    assert told.startswith(f"P: {note}")


@pytest.mark.parametrize(
    ("override", "has_gpu", "left"),
    [
        (T4, True, set()),
        ({"environment": {"A": "1"}, "start_timeout": 9}, False, {"environment", "start_timeout"}),
        ({"extra_pod_config": {"runtimeClassName": "a"}}, True, set()),
        ({"extra_pod_config": {"runtimeClassName": "a"}}, False, {"extra_pod_config"}),
        ({"extra_pod_config": {"hostIPC": True}}, True, {"extra_pod_config"}),
        ({"extra_pod_config": "a"}, True, {"extra_pod_config"}),
        (
            {"extra_resource_limits": {"smarter-devices/fuse": 1}},
            True,
            {"extra_resource_limits of smarter-devices/fuse"},
        ),
        ({"extra_resource_limits": {"nvidia.com/gpu": 0}}, False, set()),
        ({"extra_resource_limits": {"nvidia.com/gpu": "many"}}, False, {"extra_resource_limits of nvidia.com/gpu"}),
        (
            {"extra_resource_guarantees": {"ephemeral-storage": "1Gi"}},
            True,
            {"extra_resource_guarantees of ephemeral-storage"},
        ),
        ({"extra_resource_guarantees": ["a"]}, True, {"extra_resource_guarantees"}),
    ],
)
def test_what_has_no_place_is_named(override: dict[str, Any], has_gpu: bool, left: set[str]):
    assert find_unplaced_traits(variant(**override), has_gpu=has_gpu) == left


def test_a_slug_is_new():
    assert [
        make_unique_slug("Big one", taken, fallback="gpu") for taken in ((), ("big-one",), ("big-one", "big-one-2"))
    ] == [
        "big-one",
        "big-one-2",
        "big-one-3",
    ]
    assert make_unique_slug("  ", (), fallback="gpu") == "gpu"
