from __future__ import annotations

import pytest

from gpuspawner.core.catalog.accelerators import (
    Accelerator,
    AcceleratorMatch,
    AcceleratorTable,
    reconcile_memory,
)

GIB = 1 << 30
A100_40 = Accelerator(
    slug="a100-40gb",
    name="A100 40 GB",
    vendor="nvidia",
    memory_bytes=40 * GIB,
    labels={"gfd": ("NVIDIA-A100-SXM4-40GB",), "gke": ("nvidia-tesla-a100",), "karpenter": ("a100",)},
    karpenter_memory_mib=40960,
    nvlink=("NVIDIA-A100-SXM4-40GB", "a100"),
)
A100_80 = Accelerator(
    slug="a100-80gb",
    name="A100 80 GB",
    vendor="nvidia",
    memory_bytes=80 * GIB,
    labels={"gfd": ("NVIDIA-A100-SXM4-80GB",), "karpenter": ("a100",)},
)
PRO = Accelerator(
    slug="pro",
    name="RTX PRO",
    vendor="nvidia",
    memory_bytes=96 * GIB,
    labels={"gfd": ("RTX-PRO",), "gke": ("rtx-pro",)},
    fractional=("gke",),
)
TABLE = AcceleratorTable([A100_40, A100_80, PRO])
PRODUCT, NAME = "nvidia.com/gpu.product", "karpenter.k8s.aws/instance-gpu-name"


@pytest.mark.parametrize(
    ("key", "value", "memory_mib", "slug"),
    [
        (PRODUCT, "NVIDIA-A100-SXM4-40GB", None, "a100-40gb"),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", None, "a100-40gb"),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB-SHARED", None, "a100-40gb"),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", None, "a100-40gb"),
        (NAME, "a100", 81920, "a100-80gb"),
        (NAME, "a100", 40960, "a100-40gb"),
        ("eks.amazonaws.com/instance-gpu-name", "a100", 81920, "a100-80gb"),
    ],
)
def test_a_model_is_found_by_what_labels_call_it(key: str, value: str, memory_mib: int | None, slug: str):
    known = TABLE.find(key, value, memory_mib=memory_mib)
    assert known is not None
    assert known.accelerator.slug == slug


@pytest.mark.parametrize(
    ("key", "value", "memory_mib"),
    [
        (PRODUCT, "NVIDIA-A100-SXM4-41GB", None),
        # One name for two models, and nothing that tells them apart.
        (NAME, "a100", None),
        (NAME, "a100", 20480),
        ("zone", "a100", None),
    ],
)
def test_what_labels_do_not_tell_is_not_guessed(key: str, value: str, memory_mib: int | None):
    assert TABLE.find(key, value, memory_mib=memory_mib) is None


def test_a_label_that_also_stands_for_parts_tells_no_memory():
    assert TABLE.find("cloud.google.com/gke-accelerator", "rtx-pro") == AcceleratorMatch(
        accelerator=PRO, memory_bytes=None
    )
    assert TABLE.find("nvidia.com/gpu.product", "RTX-PRO") == AcceleratorMatch(accelerator=PRO, memory_bytes=96 * GIB)


@pytest.mark.parametrize(
    ("key", "value", "is_linked"),
    [
        (PRODUCT, "NVIDIA-A100-SXM4-40GB", True),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB-SHARED", True),
        (PRODUCT, "NVIDIA-A100-SXM4-80GB", False),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", False),
        # One of the two models of this name.
        (NAME, "a100", False),
        (PRODUCT, "a100", False),
        (PRODUCT, "X9", False),
        ("pool", "NVIDIA-A100-SXM4-40GB", False),
    ],
)
def test_the_table_says_which_products_are_linked(key: str, value: str, is_linked: bool):
    assert TABLE.has_nvlink(key, value) is is_linked


@pytest.mark.parametrize(
    ("labelled_mib", "known_bytes", "expected"),
    [
        (None, None, None),
        (None, 80 * GIB, 80 * GIB),
        (81559, 80 * GIB, 80 * GIB),
        (81559, None, 80 * GIB),
        (15360, 16 * GIB, 16 * GIB),
        # A quarter of the GPU that the product names.
        (6144, 24 * GIB, 6 * GIB),
        (4864, None, 5 * GIB),
        (256, None, 256 << 20),
    ],
)
def test_the_measured_memory_wins_and_the_table_rounds_it(
    labelled_mib: int | None, known_bytes: int | None, expected: int | None
):
    assert reconcile_memory(labelled_mib, known_bytes) == expected
