from __future__ import annotations

import pytest

from gpuspawner.core.catalogue import GPUType

PRODUCT = "nvidia.com/gpu.product"
SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
GPU = GPUType(
    slug="a100",
    display_name="A100",
    resource="nvidia.com/gpu",
    vendor="nvidia",
    match={PRODUCT: ("A100-SXM", "A100-PCIe"), SHARING: ()},
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({PRODUCT: "A100-SXM"}, True),
        ({PRODUCT: "A100-PCIe", "zone": "a"}, True),
        ({PRODUCT: "T4"}, False),
        ({}, False),
        ({PRODUCT: "A100-SXM", SHARING: "mps"}, False),
    ],
)
def test_a_node_is_of_a_type_when_every_label_matches(labels: dict[str, str], expected: bool):
    assert GPU.is_on(labels) is expected


def test_a_type_without_a_match_is_on_every_node():
    assert GPUType(slug="g", display_name="G", resource="nvidia.com/gpu", vendor="nvidia").is_on({})
