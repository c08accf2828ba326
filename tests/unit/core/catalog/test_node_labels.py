from __future__ import annotations

import pytest

from gpuspawner.core.catalog.node_labels import (
    find_vendor,
    format_vendor,
)


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("nvidia.com/gpu", "nvidia"),
        ("nvidia.com/gpu.shared", "nvidia"),
        ("nvidia.com/mig-1g.5gb", "nvidia"),
        ("nvidia.com/mig-1g.24gb.me.all", "nvidia"),
        ("nvidia.com/mig-1g.24gb-me.shared", "nvidia"),
        ("amd.com/gpu", "amd"),
        ("amd.com/cpx_nps4", "amd"),
        ("gpu.intel.com/xe", "intel"),
        ("gpu.intel.com/monitoring", None),
        ("google.com/tpu", None),
        ("nvidia.com/gpumem", None),
        ("cpu", None),
    ],
)
def test_only_gpu_resources_have_a_vendor(resource: str, vendor: str | None):
    assert find_vendor(resource) == vendor


@pytest.mark.parametrize(
    ("vendor", "name"), [("nvidia", "NVIDIA"), ("amd", "AMD"), ("intel", "Intel"), ("acme", "acme"), ("", "Other")]
)
def test_a_vendor_is_named_as_it_writes_itself(vendor: str, name: str):
    assert format_vendor(vendor) == name
