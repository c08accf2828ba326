from __future__ import annotations

import copy
from collections import UserDict
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.errors import SettingsError
from gpuspawner.settings import Settings

FULL = yaml.safe_load("""
images:
  pytorch:
    display_name: PyTorch 2.9, CUDA 12.8
    image: quay.io/jupyter/pytorch-notebook:cuda12-2026-10-01
    cuda: "12.8"
    vendors: [nvidia]
    architectures: [amd64]
custom_images: {allowed: true, registries: [quay.io/jupyter, ghcr.io], description: For those who build their own}
cpu: {min: 0.5, max: 32, step: 0.5, default: 2, guarantee: 0.5}
memory: {min: 1G, max: 256G, step: 1G, default: 8G, guarantee: 1.0}
run_time: {min: 30m, max: 2d, step: 30m, default: 8h}
shared_memory: {min: 1G, max: 64G, step: 1G}
priorities:
  normal: {class: jupyter-normal, value: 100}
  low: {display_name: Low, description: May be stopped, class: jupyter-low, value: -10}
gpus:
  a100-80gb:
    display_name: NVIDIA A100 80 GB
    resource: nvidia.com/gpu
    match: {nvidia.com/gpu.product: [NVIDIA-A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe]}
    max_count: 8
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
    runtime_class: nvidia
    shm: 0.5
    scale_up: {max_nodes: 4, gpus_per_node: 8, minutes: 6}
    start_timeout: 900
queue: {local_queue: gpu-queue, priority_class: interactive, timeout: 3600, gpus: [a100-80gb]}
presets:
  small: {display_name: Small, cpu: 1, memory: 4G}
  train: {display_name: Training, image: pytorch, cpu: 8, memory: 64G, gpu: a100-80gb, gpu_count: 1, run_time: 12h,
    shared_memory: 8G, priority: low}
""")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
SECTIONS = [
    *("images", "custom_images", "cpu", "memory", "run_time", "shared_memory", "gpus", "presets", "accelerators"),
    *("priorities", "policy", "pools", "discover_gpus", "queue", "nonsense"),
]
KEYS = st.sampled_from(
    [
        "image",
        "resource",
        "match",
        "min",
        "max",
        "step",
        "default",
        "cpu",
        "gpu",
        "gpu_count",
        "enabled",
        "allowed",
        "registries",
        "order",
        "cuda",
        "groups",
        "gpus",
        "max_gpus",
        "max_runtime",
    ]
)
NEAR_MISSES = st.dictionaries(
    st.sampled_from(SECTIONS),
    JSON
    | st.dictionaries(st.sampled_from(["a", "A b", ""]), st.dictionaries(KEYS, JSON | st.just("8G")))
    | st.dictionaries(KEYS, JSON),
)


def problems(raw: Any) -> dict[str, str]:
    try:
        Settings.parse(raw)
    except SettingsError as error:
        return {problem.field: problem.code for problem in error.problems}
    return {}


def test_the_documented_example_is_valid():
    configured = Settings.parse(FULL).configured
    assert (list(configured.images), list(configured.gpus), list(configured.presets)) == (
        ["pytorch"],
        ["a100-80gb"],
        ["small", "train"],
    )


def test_parsing_leaves_what_it_was_given_alone():
    raw = copy.deepcopy(FULL)
    Settings.parse(raw)
    assert raw == FULL


def test_any_kind_of_mapping_will_do():
    assert Settings.parse(UserDict(FULL)).model == Settings.parse(FULL).model


@pytest.mark.parametrize(
    ("raw", "changed"),
    [
        ({}, set()),
        ({"images": {}, "cpu": None, "memory": {}, "gpus": None, "discover_gpus": True}, set()),
        ({"gpus": {"t4": None}}, set()),
        ({"custom_images": None}, set()),
        ({"custom_images": {"allowed": False}}, set()),
        ({"discover_gpus": False}, {"discover_gpus"}),
        ({"gpus": {"t4": {"enabled": False}}, "cpu": {"max": 4}}, {"gpus", "cpu"}),
    ],
)
def test_the_keys_that_say_something_are_known(raw: dict[str, Any], changed: set[str]):
    assert Settings.parse(raw).changed == changed


def test_the_documented_example_changes_every_key_it_has():
    assert Settings.parse(FULL).changed == FULL.keys()


@pytest.mark.parametrize(
    ("raw", "path", "code"),
    [
        ({"gpus": {"a": {"resource": "nvidia.com/gpu", "max_cuont": 2}}}, "gpus.a.max_cuont", "unknown_key"),
        ({"cpu": {"default": 2}}, "cpu.max", "missing"),
        ({"cpu": {"max": "lots"}}, "cpu.max", "bad_value"),
        ({"cpu": 4}, "cpu", "wrong_type"),
        ({"run_time": {"max": "24h", "guarantee": 1.0}}, "run_time.guarantee", "unknown_key"),
        ({"priorities": {"low": {"class": "Low!", "value": 1}}}, "priorities.low.class", "bad_value"),
        ({"priorities": {"low": {"class": "low", "value": 2 * 10**9}}}, "priorities.low.value", "out_of_range"),
        ({"shared_memory": {"max": "8G", "default": "1G"}}, "shared_memory.default", "unknown_key"),
        ({"gpus": {"a": {"resource": "nvidia.com/gpu", "spot": "yes"}}}, "gpus.a.spot", "wrong_type"),
        ({"gpus": {"a": {"resource": "nvidia.com/gpu", "interconnect": True}}}, "gpus.a.interconnect", "bad_value"),
        ({"presets": {"p": {"gpu": "nope"}}, "discover_gpus": False}, "presets.p.gpu", "unknown_choice"),
        ({"images": {"A b": {"image": "a"}}}, "images.A b", "bad_slug"),
    ],
)
def test_wrong_values_are_named_by_their_path(raw: dict[str, Any], path: str, code: str):
    assert problems(raw) == {path: code}


def test_all_problems_are_reported_at_once():
    raw = {"cpu": {"max": "x"}, "gpus": {"a": {"shm": 0}}, "nonsense": 1}
    assert set(problems(raw)) == {"cpu.max", "gpus.a.shm", "nonsense"}


def test_settings_that_contain_themselves_are_refused():
    raw: dict[str, Any] = {"images": {}}
    raw["images"]["a"] = raw
    assert problems(raw) == {"": "bad_value"}


@given(NEAR_MISSES | JSON)
def test_any_yaml_is_settings_or_a_settings_error(raw: Any):
    if not problems(raw):
        assert Settings.parse(raw).configured.images is not None


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"default": {"gpus": {"t4": None, "*": None}}}, "policy.default.gpus"),
        ({"groups": {"ml": {"gpus": {"t4": None}}}}, "policy.groups.ml.gpus"),
    ],
)
def test_types_that_are_all_null_are_no_ban_of_gpus(policy: dict[str, Any], path: str):
    with pytest.raises(SettingsError) as caught:
        Settings.parse({"policy": policy})
    message = "names no GPU type, because null takes one out; to allow one write t4: {}"
    assert [(each.field, each.message) for each in caught.value.problems] == [(path, message)]
