from __future__ import annotations

from itertools import permutations

import pytest

from gpuspawner.core.catalog.model import ComputeCapability, Platform
from gpuspawner.core.catalog.software import deduplicate_platforms, parse_compute_capability, read_platform

LABELS = {
    "nvidia.com/cuda.driver-version.major": "570",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "9",
    "nvidia.com/gpu.product": "NVIDIA-L4",
    "kubernetes.io/arch": "amd64",
}


def test_a_platform_is_what_the_labels_say():
    found = read_platform({**LABELS, "unrelated": "x"})
    assert found == Platform(architecture="amd64", driver=570, cuda=12, compute=(8, 9), labels=tuple(LABELS.items()))


def test_the_older_spelling_is_read_as_well():
    older = {"nvidia.com/cuda.driver.major": "535", "nvidia.com/cuda.runtime.major": "12"}
    assert read_platform(older) == Platform(driver=535, cuda=12, labels=tuple(older.items()))


def test_the_present_spelling_wins_over_the_older_one():
    assert read_platform({**LABELS, "nvidia.com/cuda.driver.major": "1"}).driver == 570


@pytest.mark.parametrize("value", ["", "x", "-1", "5.5", "\u0665\u0667\u0660", "9" * 5000, "1e3", " 570"])
def test_a_label_that_is_no_number_tells_nothing(value: str):
    found = read_platform({"nvidia.com/cuda.driver-version.major": value, "nvidia.com/gpu.compute.major": "8"})
    assert (found.driver, found.compute) == (None, None)


def test_equal_platforms_count_once_in_whatever_order_nodes_come():
    seen = [read_platform(LABELS), read_platform({}), Platform(compute=(7, 0)), read_platform(LABELS), Platform()]
    assert {deduplicate_platforms(order) for order in permutations(seen)} == {
        (Platform(), Platform(compute=(7, 0)), read_platform(LABELS))
    }


@pytest.mark.parametrize(
    ("text", "compute"), [("8.9", (8, 9)), ("12.0", (12, 0)), ("", None), ("8", None), ("8.x", None), ("8.9.1", (8, 9))]
)
def test_a_compute_capability_is_read_as_tables_write_it(text: str, compute: ComputeCapability | None):
    assert parse_compute_capability(text) == compute
