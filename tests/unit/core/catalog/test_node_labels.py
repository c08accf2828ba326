from __future__ import annotations

import pytest

from gpuspawner.core.catalog.node_labels import (
    find_vendor,
    format_vendor,
    parse_mig_memory,
    parse_mig_profile,
    slugify,
)

GIB = 1 << 30


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
    ("resource", "profile"), [("nvidia.com/mig-1g.5gb", "1g.5gb"), ("nvidia.com/gpu", None), ("x", None)]
)
def test_a_mixed_resource_names_its_profile(resource: str, profile: str | None):
    assert parse_mig_profile(resource) == profile


@pytest.mark.parametrize(("profile", "gib"), [("1g.5gb", 5), ("7g.141gb", 141), ("1g.24gb+me", 24)])
def test_a_profile_is_named_by_its_memory(profile: str, gib: int):
    assert parse_mig_memory(profile) == gib * GIB


@pytest.mark.parametrize("profile", [None, "", "cpx_nps4"])
def test_text_that_is_no_mig_profile_has_no_memory(profile: str | None):
    assert parse_mig_memory(profile) is None


@pytest.mark.parametrize(
    ("text", "slug"), [("NVIDIA A100-SXM4", "nvidia-a100-sxm4"), ("-mig-1g.5gb.", "mig-1g.5gb"), ("é_", "")]
)
def test_a_slug_holds_only_what_labels_may_hold(text: str, slug: str):
    assert slugify(text) == slug


@pytest.mark.parametrize(
    ("vendor", "name"), [("nvidia", "NVIDIA"), ("amd", "AMD"), ("intel", "Intel"), ("acme", "acme"), ("", "Other")]
)
def test_a_vendor_is_named_as_it_writes_itself(vendor: str, name: str):
    assert format_vendor(vendor) == name
