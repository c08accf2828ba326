from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
from pydantic import TypeAdapter

from gpuspawner.core.catalog.accelerators import Accelerator
from gpuspawner.settings.accelerators import build_accelerator_table, load_builtin_accelerators

GIB = 1 << 30
PRODUCT = "nvidia.com/gpu.product"
RAW = json.loads((files("gpuspawner") / "data" / "accelerators.json").read_text(encoding="utf-8"))["accelerators"]


def memory_of(changes: dict[str, Any], key: str, value: str) -> int | None:
    entries = {slug: change and TypeAdapter(Accelerator).validate_python(change) for slug, change in changes.items()}
    known = build_accelerator_table(entries).find(key, value)
    return None if known is None else known.memory_bytes


def test_every_entry_has_a_slug_a_name_a_vendor_and_a_label():
    for slug, accelerator in load_builtin_accelerators().items():
        assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", slug)
        assert accelerator.slug == slug
        assert accelerator.name
        assert accelerator.vendor in {"nvidia", "amd", "intel"}
        assert any(accelerator.labels.values())


def test_no_label_but_karpenters_names_two_models():
    names = [
        (source, name)
        for accelerator in load_builtin_accelerators().values()
        for source, values in accelerator.labels.items()
        for name in values
        if source != "karpenter"
    ]
    assert len(names) == len(set(names))


def test_karpenters_memory_tells_models_of_one_name_apart():
    found = {
        size: build_accelerator_table({}).find("karpenter.k8s.aws/instance-gpu-name", "a100", memory_mib=size)
        for size in (40960, 81920)
    }
    assert [known and known.accelerator.slug for known in found.values()] == ["a100-40gb", "a100-80gb"]


def test_products_that_nvlink_links_are_names_of_their_models():
    linked = {slug: set(model.nvlink) for slug, model in load_builtin_accelerators().items() if model.nvlink}
    names = {
        slug: {name for found in load_builtin_accelerators()[slug].labels.values() for name in found} for slug in linked
    }
    assert {slug: found - names[slug] for slug, found in linked.items() if found - names[slug]} == {}


@pytest.mark.parametrize(
    ("product", "is_linked"),
    [
        ("NVIDIA-A100-SXM4-80GB", True),
        ("NVIDIA-A100-80GB-PCIe", False),
        ("NVIDIA-H100-80GB-HBM3", True),
        ("NVIDIA-H100-PCIe", False),
        ("NVIDIA-H100-NVL", False),
        ("Tesla-V100-SXM2-16GB", True),
        ("Tesla-T4", False),
    ],
)
def test_types_made_for_nvlink_are_known_by_product(product: str, is_linked: bool):
    assert build_accelerator_table({}).has_nvlink(PRODUCT, product) is is_linked


def test_memory_that_no_source_confirms_is_unknown():
    for slug, raw in RAW.items():
        known = load_builtin_accelerators()[slug].memory_bytes
        confirmed = "memory_gib" in raw and "memory_gib" not in raw.get("unverified", ())
        assert known == (raw["memory_gib"] * GIB if confirmed else None)


@pytest.mark.parametrize(
    ("product", "gib"),
    [("NVIDIA-GH200-480GB", 96), ("NVIDIA-H100-80GB-HBM3", 80), ("Tesla-T4", 15), ("Tesla-K80", None)],
)
def test_memory_is_never_read_out_of_a_name(product: str, gib: int | None):
    assert memory_of({}, PRODUCT, product) == (None if gib is None else gib * GIB)


def test_an_admin_replaces_one_fact():
    assert memory_of({"k80": {"memory": "11G"}}, PRODUCT, "Tesla-K80") == 11 * GIB


def test_an_admin_adds_a_model():
    new = {
        "name": "X9",
        "vendor": "nvidia",
        "memory": "512G",
        "labels": {"gfd": ["NVIDIA-X9"]},
    }
    assert memory_of({"x9": new}, PRODUCT, "NVIDIA-X9") == 512 * GIB


def test_an_admin_removes_a_model():
    assert build_accelerator_table({"t4": None}).find(PRODUCT, "Tesla-T4") is None


def test_a_compute_capability_is_known_only_where_a_source_confirms_it():
    known = {slug for slug, raw in RAW.items() if "compute_capability" in raw}
    doubtful = {slug for slug in known if "compute_capability" in RAW[slug].get("unverified", ())}
    found = {slug: model.compute for slug, model in load_builtin_accelerators().items() if model.compute is not None}
    assert set(found) == known - doubtful
    assert (found["t4"], found["h100-80gb"]) == ((7, 5), (9, 0))
