"""Null says nothing where the key is known, takes out entries, and hides no typo."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.accelerators import GFD_PRODUCT
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.value_types import list_keys
from gpuspawner.settings import Settings
from gpuspawner.settings.accelerators import build_accelerator_table
from gpuspawner.settings.models import SettingsModel
from gpuspawner.settings.parsing import find_emptied_mappings

IMAGE = {"image": "lab:1"}
GPU = {"resource": "nvidia.com/gpu"}
KEYED = {"key": "k"}
PRODUCTS = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")


def problems(raw: Any) -> dict[str, str]:
    with pytest.raises(SettingsError) as wrong:
        Settings.parse(raw)
    return {problem.field: problem.message for problem in wrong.value.problems}


@pytest.mark.parametrize(
    ("with_nulls", "without"),
    [
        ({"images": {"a": None, "b": IMAGE}}, {"images": {"b": IMAGE}}),
        ({"images": {"b": {**IMAGE, "cuda": None, "enabled": None, "order": None}}}, {"images": {"b": IMAGE}}),
        ({"custom_images": {"allowed": True, "registries": None}}, {"custom_images": {"allowed": True}}),
        ({"cpu": {"max": 4, "min": None}}, {"cpu": {"max": 4}}),
        ({"priorities": {"low": None}, "gpus": {"t4": None}, "presets": {"p": None}, "pools": {"p": None}}, {}),
        ({"gpus": {"t4": {**GPU, "match": {"a": None, "b": ["c"]}}}}, {"gpus": {"t4": {**GPU, "match": {"b": ["c"]}}}}),
        ({"gpus": {"t4": {**GPU, "match": None, "scale_up": None}}}, {"gpus": {"t4": GPU}}),
        ({"gpus": {"t4": {**GPU, "environment": {"A": None}}}}, {"gpus": {"t4": GPU}}),
        (
            {"gpus": {"t4": {**GPU, "tolerations": [{**KEYED, "value": None}]}}},
            {"gpus": {"t4": {**GPU, "tolerations": [KEYED]}}},
        ),
        (
            {"accelerators": {"a100-40gb": {"name": "A", "memory": None}}},
            {"accelerators": {"a100-40gb": {"name": "A"}}},
        ),
        (
            {"policy": {"groups": {"a": None, "b": {"cpu": {"min": None}}}, "users": None}},
            {"policy": {"groups": {"b": {"cpu": {}}}}},
        ),
        (
            {"policy": {"default": {"gpus": {"t4": {"max_gpus": None}}}}},
            {"policy": {"default": {"gpus": {"t4": {}}}}},
        ),
        ({"queue": {"local_queue": "q", "timeout": None}}, {"queue": {"local_queue": "q"}}),
        (dict.fromkeys(list_keys(SettingsModel)), {}),
    ],
)
def test_null_counts_as_left_out(with_nulls: Any, without: Any):
    assert Settings.parse(with_nulls).model == Settings.parse(without).model


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"image": None}, "image"),
        ({"images": {"a": {**IMAGE, "cud": None}}}, "images.a.cud"),
        ({"gpus": {"a": {**GPU, "scale_up": {"max": None}}}}, "gpus.a.scale_up.max"),
        ({"policy": {"default": {"max_gpu": None}}}, "policy.default.max_gpu"),
        ({"policy": {"groups": {"a": {"gpus": {"t4": {"max": None}}}}}}, "policy.groups.a.gpus.t4.max"),
        ({"gpus": {"a": {**GPU, "tolerations": [{"keys": None}]}}}, "gpus.a.tolerations.0.keys"),
    ],
)
def test_an_unknown_key_is_reported_though_it_is_null(raw: Any, path: str):
    assert "there is no such key" in problems(raw)[path]


def test_bounds_of_which_nothing_is_left_are_no_bounds():
    assert problems({"cpu": {"max": None}}) == {"cpu.max": "is required"}


def test_a_model_of_the_table_that_is_null_is_taken_out():
    changes = Settings.parse({"accelerators": {"a100-40gb": None, "a100-80gb": {"enabled": False}}}).model.accelerators
    table = build_accelerator_table(changes)
    found = [table.find(GFD_PRODUCT, product) for product in PRODUCTS]
    assert [known.accelerator.slug for known in found if known] == ["h100-80gb"]


def test_labels_that_are_all_null_do_not_stand_for_all_nodes():
    (found,) = find_emptied_mappings({"gpus": {"t4": {"match": {"gpu.product": None}}, "a": {"match": {}}, "b": None}})
    assert (found.field, found.code) == ("gpus.t4.match", "bad_value")
    assert "asks for no label, because null takes out gpu.product" in found.message


def test_other_values_than_mappings_are_left_to_validation():
    assert problems({"images": [None]}) == {"images": "must be a mapping, not a list"}
    assert problems({"images": {"i": {**IMAGE, "architectures": [None]}}}) == {
        "images.i.architectures.0": "must be a text, not null"
    }
    assert not list(find_emptied_mappings({"gpus": [], "policy": {"groups": 3, "default": [1]}}))
    assert not list(find_emptied_mappings(None))
