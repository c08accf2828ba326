from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.check.settings_warnings import find_misspelled_names
from gpuspawner.settings import Settings

T4 = {"resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.product": "Tesla-T4"}}


def told(**raw: Any) -> list[tuple[str, str]]:
    return [(problem.field, problem.message) for problem in find_misspelled_names(Settings.parse(raw).model)]


@pytest.mark.parametrize(
    ("change", "field", "meant"),
    [
        ({"match": {"nvidia.com/gpu.prodcut": "Tesla-T4"}}, "match.nvidia.com/gpu.prodcut", "nvidia.com/gpu.product"),
        ({"match": {"cloud.google.com/gke-acelerator": "x"}}, "match.cloud.google.com/gke-acelerator",
         "cloud.google.com/gke-accelerator"),
        ({"match": {"nvidia.com/gpu.product": ["Tesla-T4", "NVIDIA-A100-SXM4-80GGB"]}},
         "match.nvidia.com/gpu.product.1", "NVIDIA-A100-SXM4-80GB"),
        ({"match": {"cloud.google.com/gke-accelerator": "nvidia-tesla-t44"}},
         "match.cloud.google.com/gke-accelerator", "nvidia-tesla-t4"),
        ({"tolerations": [{"key": "nvidia.com/gpuu"}]}, "tolerations.0.key", "nvidia.com/gpu"),
        ({"runtime_class": "nvida"}, "runtime_class", "nvidia"),
        ({"runtime_class": "nvdia"}, "runtime_class", "nvidia"),
    ],
)  # fmt: skip
def test_a_name_that_looks_like_a_well_known_one_is_reported(change: dict[str, Any], field: str, meant: str):
    ((where, message),) = told(gpus={"x": T4 | change})
    assert (where, message.endswith(f"Did you mean {meant!r}?")) == (f"gpus.x.{field}", True), message


@pytest.mark.parametrize(
    "gpu",
    [
        T4,
        {"resource": "nvidia.com/mig-1g.5gb", "match": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}},
        {"resource": "example.com/gpu", "vendor": "nvidia", "match": {"pool": "gpu"}},
        {"resource": "nvidia.com/gpu", "runtime_class": "ours", "tolerations": [{"key": "team", "value": "ml"}]},
        {"resource": "nvidia.com/gpu", "match": {"nvidia.com/gpu.prodcut": "x"}, "enabled": False},
    ],
)
def test_names_that_may_be_meant_are_left_alone(gpu: dict[str, Any]):
    assert told(gpus={"x": gpu}) == []


def test_an_image_that_no_node_could_pull_is_reported():
    images = {"a": {"image": "https://quay.io/a/b:1"}, "b": {"image": "quay.io/a/b:1", "architectures": ["amd46"]}}
    assert [field for field, _ in told(images=images)] == ["images.a.image", "images.b.architectures.0"]
