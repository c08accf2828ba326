"""Look up GPU models by the value of a node label.

The product name in a label does not tell the GPU's memory (a ``NVIDIA-GH200-480GB`` has 96 GB). The memory comes from
the table of models or from a memory label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from gpuspawner.core.catalog.model import ComputeCapability
from gpuspawner.core.value_types import (
    NO_DEFAULT,
    FromSettings,
    LabelValue,
    Many,
    Memory,
    Named,
    OneOf,
    Title,
    Vendor,
    setting,
)

GFD_PRODUCT = "nvidia.com/gpu.product"
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
KARPENTER_PREFIXES = ("karpenter.k8s.aws/", "eks.amazonaws.com/")
"""Prefixes of the labels of Karpenter and of EKS Auto Mode on nodes. Both use the same label names after the prefix."""
AMD_PRODUCT = "amd.com/gpu.product-name"
INTEL_PRODUCT = "gpu.intel.com/product"

_LABEL_SOURCES = {GFD_PRODUCT: "gfd", GKE_ACCELERATOR: "gke", AMD_PRODUCT: "amd", INTEL_PRODUCT: "intel"} | {
    f"{prefix}instance-gpu-name": "karpenter" for prefix in KARPENTER_PREFIXES
}
_PRODUCT_SUFFIXES = re.compile(r"(-MIG-.*)?(-SHARED)?$", re.ASCII | re.DOTALL)
"""Suffixes that GPU Feature Discovery appends to the product name for MIG slices and shared GPUs."""

_MEMORY_TOLERANCE = 0.1
"""Two memory sizes count as equal if they differ by at most 10 %: the driver and the cloud report sizes of the same GPU
that differ by up to 7 % (T4: 15360 MiB from the driver, 16384 MiB from EC2)."""
_MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator(FromSettings):
    """Facts about a GPU model. Those in the settings replace single facts of the built-in table, or add a model.

    :param slug: the model's name in slugs of GPU types (``a100-80gb``).
    :param compute: CUDA compute capability; None when unknown.
    :param fractional: sources (keys of ``labels``) whose label does not tell the memory, because nodes with slices have
        the same value.
    :param nvlink: label values, of any source, that mean a machine with NVLink between its GPUs.
    :param given: keys that the settings contain.
    """

    slug: str = ""
    enabled: Annotated[bool, setting("False removes the model from the table, as null does.")] = True
    name: Annotated[Title, setting("Name in the form.")] = ""
    vendor: Annotated[Vendor, setting("Vendor of the GPU.")] = ""
    memory_bytes: Annotated[Memory | None, setting("Memory of one GPU.", alias="memory")] = None
    labels: Annotated[
        Named[Annotated[str, OneOf("gfd", "gke", "karpenter", "amd", "intel")], Many[LabelValue]],
        setting("Names of the model in node labels, by the program that sets the labels."),
        NO_DEFAULT,
    ] = field(default_factory=dict)
    karpenter_memory_mib: Annotated[
        int | None, setting("What Karpenter's memory label holds; tells models of the same name apart.", ge=1)
    ] = None
    compute: ComputeCapability | None = None
    fractional: tuple[str, ...] = ()
    nvlink: tuple[str, ...] = ()
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorMatch:
    """The GPU model that a node label names.

    :param memory_bytes: memory of one GPU; None if unknown, for example because nodes with MIG slices have the same
        label as nodes with whole GPUs.
    """

    accelerator: Accelerator
    memory_bytes: int | None


class AcceleratorTable:
    """The known GPU models; finds a model by a node's label.

    :param accelerators: all models.
    """

    def __init__(self, accelerators: Iterable[Accelerator] = ()) -> None:
        self._by_name: dict[tuple[str, str], list[Accelerator]] = {}
        for accelerator in accelerators:
            for source, names in accelerator.labels.items():
                for name in names:
                    self._by_name.setdefault((source, name), []).append(accelerator)

    def find(self, key: str, value: str, *, memory_mib: int | None = None) -> AcceleratorMatch | None:
        """Return the GPU model that a label names, or None if no model or more than one model matches.

        A model matches if it has this label value and, unless ``memory_mib`` is None, about this memory.

        :param key: name of the label, such as ``nvidia.com/gpu.product``.
        :param value: the label's value on the node.
        :param memory_mib: memory of one GPU in MiB; None if unknown.
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
        """Return whether a label names a GPU model whose machines connect their GPUs by NVLink.

        The result may also be True for nodes with MIG slices or shared GPUs.

        :param key: name of the label, such as ``nvidia.com/gpu.product``.
        :param value: the label's value on the node.
        """
        source = _LABEL_SOURCES.get(key, "")
        name = _normalize_name(source, value)
        models = self._by_name.get((source, name), [])
        return bool(models) and all(name in model.nvlink for model in models)


def strip_product_suffix(product: str) -> str:
    """Return a value of the label ``nvidia.com/gpu.product`` without the suffixes for MIG slices and sharing."""
    return _PRODUCT_SUFFIXES.sub("", product)


def reconcile_memory(labelled_mib: int | None, known_bytes: int | None) -> int | None:
    """Return the memory of one GPU in bytes, from a node's label and the table of models, or None if neither has it.

    - Without a label, or if both agree within 10 %: the table's number.
    - Otherwise: the label's number, because the node may have MIG slices and the table has only whole GPUs. It is
      rounded to whole GiB, unless it is less than half a GiB.

    :param labelled_mib: MiB in the node's memory label; None when the node has no such label.
    :param known_bytes: bytes in the table; None when the table has no memory for the label.
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
