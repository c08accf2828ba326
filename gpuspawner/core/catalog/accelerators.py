"""What is known of GPU models, found by what a node's labels call them.

A name never says how much memory a GPU has (``NVIDIA-GH200-480GB`` has 96 GB): the table does, or the node's labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.catalog.model import ComputeCapability

GFD_PRODUCT = "nvidia.com/gpu.product"
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
KARPENTER_PREFIXES = ("karpenter.k8s.aws/", "eks.amazonaws.com/")
"""Karpenter's and EKS Auto Mode's labels differ in nothing else."""
AMD_PRODUCT = "amd.com/gpu.product-name"
INTEL_PRODUCT = "gpu.intel.com/product"

_LABEL_SOURCES = {GFD_PRODUCT: "gfd", GKE_ACCELERATOR: "gke", AMD_PRODUCT: "amd", INTEL_PRODUCT: "intel"} | {
    f"{prefix}instance-gpu-name": "karpenter" for prefix in KARPENTER_PREFIXES
}
_PRODUCT_SUFFIXES = re.compile(r"(-MIG-.*)?(-SHARED)?$", re.ASCII | re.DOTALL)
"""What GPU Feature Discovery appends to a product for MIG slices and shared GPUs."""

_MEMORY_TOLERANCE = 0.1
"""Sources differ by 1 to 7 % in the memory of the same GPU (T4: 15360 MiB by driver, 16384 MiB by EC2)."""
_MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A GPU model.

    :param memory_bytes: memory of one GPU, None when not known or not confirmed by any source.
    :param labels: source (``gfd``, ``gke``, ``karpenter``, ``amd``, ``intel``) → what it calls the model.
    :param karpenter_memory_mib: what Karpenter's memory label holds; it tells models of the same name apart.
    :param compute: compute capability, None when not known or not confirmed by any source.
    :param fractional: sources whose name also stands for parts of the GPU, and so does not tell its memory.
    :param nvlink: those names of the model, whatever their source, that stand for GPUs that NVLink links.
    """

    slug: str
    name: str
    vendor: str
    memory_bytes: int | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    karpenter_memory_mib: int | None = None
    compute: ComputeCapability | None = None
    fractional: tuple[str, ...] = ()
    nvlink: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorMatch:
    """A model found by a label.

    :param memory_bytes: memory of one GPU as far as that label tells it.
    """

    accelerator: Accelerator
    memory_bytes: int | None


class AcceleratorTable:
    """Finds models by label values."""

    def __init__(self, accelerators: Iterable[Accelerator] = ()) -> None:
        self._by_name: dict[tuple[str, str], list[Accelerator]] = {}
        for accelerator in accelerators:
            for source, names in accelerator.labels.items():
                for name in names:
                    self._by_name.setdefault((source, name), []).append(accelerator)

    def find(self, key: str, value: str, *, memory_mib: int | None = None) -> AcceleratorMatch | None:
        """Return the model that one label names.

        :param key: label, such as ``nvidia.com/gpu.product``.
        :param memory_mib: tells models of the same name apart, where the label does not.
        """
        source = _LABEL_SOURCES.get(key)
        if source is None:
            return None
        candidates = self._by_name.get((source, _normalize_name(source, value)), [])
        if memory_mib is not None:
            candidates = [model for model in candidates if _is_near(_get_karpenter_mib(model), memory_mib)]
        if len(candidates) != 1:
            return None
        model = candidates[0]
        return AcceleratorMatch(
            accelerator=model, memory_bytes=None if source in model.fractional else model.memory_bytes
        )

    def has_nvlink(self, key: str, value: str) -> bool:
        """Tell whether a label names whole GPUs that NVLink links wherever several are in one machine."""
        source = _LABEL_SOURCES.get(key, "")
        name = _normalize_name(source, value)
        models = self._by_name.get((source, name), [])
        return bool(models) and all(name in model.nvlink for model in models)


def strip_product_suffix(product: str) -> str:
    """Return a ``nvidia.com/gpu.product`` without what stands for MIG slices and sharing."""
    return _PRODUCT_SUFFIXES.sub("", product)


def reconcile_memory(labelled_mib: int | None, known_bytes: int | None) -> int | None:
    """Return the memory of one GPU from a node's label and the table.

    The label is measured there, so it wins (the same product may be a part of a GPU); the table rounds it to what
    people know the GPU by. Without the table it is rounded to whole GiB.

    :param labelled_mib: MiB, None when the node has no such label.
    """
    if labelled_mib is None:
        return known_bytes
    labelled = labelled_mib * _MIB
    if known_bytes is not None and _is_near(known_bytes, labelled):
        return known_bytes
    whole_gib = round(labelled_mib / 1024)
    return whole_gib * 1024 * _MIB if whole_gib else labelled


def _normalize_name(source: str, value: str) -> str:
    return strip_product_suffix(value) if source == "gfd" else value


def _get_karpenter_mib(model: Accelerator) -> int:
    return model.karpenter_memory_mib or (model.memory_bytes or 0) // _MIB


def _is_near(expected: int, found: int) -> bool:
    return abs(expected - found) <= _MEMORY_TOLERANCE * expected
