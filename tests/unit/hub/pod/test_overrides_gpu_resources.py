"""Which extended resources are GPUs."""

from __future__ import annotations

import pytest

from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.hub.pod.overrides import drop_gpu_resources, list_gpu_resources


def gpu(slug: str, resource: str) -> GPUType:
    return GPUType(slug=slug, display_name=slug, resource=resource, vendor="nvidia")


def test_a_catalog_has_the_resources_of_all_its_types():
    image = Image(slug="a", display_name="A", image="a")
    offered, hidden = gpu("a", "nvidia.com/gpu"), gpu("b", "example.com/gpu")
    catalog = Catalog(images={"a": image}, cpu=None, memory=None, gpus={"a": offered}, hidden=(hidden,))
    assert list_gpu_resources(catalog) == {"nvidia.com/gpu", "example.com/gpu"}


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("example.com/fpga", True),
        ("nvidia.com/licence", True),
        ("example.com/gpu", False),
        ("nvidia.com/gpu", False),
        ("nvidia.com/mig-1g.5gb.shared", False),
        ("amd.com/gpu", False),
        ("gpu.intel.com/xe", False),
    ],
)
def test_gpus_of_the_catalog_and_of_known_vendors_are_taken_out(name: str, stays: bool):
    assert (name in drop_gpu_resources({name: "1"}, {"example.com/gpu"})) is stays


def test_nothing_is_without_gpus():
    assert drop_gpu_resources(None, ()) == {}
