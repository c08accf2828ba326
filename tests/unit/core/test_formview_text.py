from __future__ import annotations

import pytest

from gpuspawner.core.formview_text import gpu_memory_text, made_for, vendor_name

GIB = 1 << 30


@pytest.mark.parametrize(
    ("vendor", "name"), [("nvidia", "NVIDIA"), ("amd", "AMD"), ("intel", "Intel"), ("acme", "acme"), ("", "Other")]
)
def test_a_vendor_is_named_as_it_writes_itself(vendor: str, name: str):
    assert vendor_name(vendor) == name


@pytest.mark.parametrize(
    ("memory_bytes", "text"),
    [(None, ""), (80 * GIB, "80 GiB"), (4864 << 20, "4.75 GiB"), (11_441 << 20, "11.17 GiB"), (100 * GIB, "100 GiB")],
)
def test_gpu_memory_is_told_to_two_decimals(memory_bytes: int | None, text: str):
    assert gpu_memory_text(memory_bytes) == text


@pytest.mark.parametrize(
    ("vendors", "text"),
    [(None, ""), ((), "work without a GPU"), (("nvidia",), "NVIDIA GPUs"), (("nvidia", "amd"), "NVIDIA or AMD GPUs")],
)
def test_an_image_says_what_it_is_made_for(vendors: tuple[str, ...] | None, text: str):
    assert made_for(vendors) == text
