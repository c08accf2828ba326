"""Know GPU resources and labels by their names, and keep servers without a GPU off nodes with GPU labels.

:mod:`gpuspawner.core.catalog.node_gpus` reads from the labels which GPUs a node has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuspawner.core.catalog.accelerators import KARPENTER_PREFIXES
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.text.i18n import gettext_lazy

GPU_RESOURCES = {
    "nvidia": re.compile(r"nvidia\.com/(?:gpu|mig-(?P<profile>\d+g\.\d+gb[a-z.-]*?))(?P<shared>\.shared)?", re.ASCII),
    "amd": re.compile(r"amd\.com/(?:gpu|(?P<partition>[a-z]+_nps\d+))", re.ASCII),
    "intel": re.compile(r"gpu\.intel\.com/(?:i915|xe)", re.ASCII),
}
"""Vendor → pattern of the names of the extended resources for its GPUs."""

_GPU_LABEL_PREFIXES = (
    "nvidia.com/gpu.",
    "nvidia.com/mig-",
    "nvidia.com/mps.capable",
    "cloud.google.com/gke-",
    *(f"{prefix}instance-gpu-" for prefix in KARPENTER_PREFIXES),
    "karpenter.azure.com/sku-gpu-",
    "amd.com/gpu.",
    "beta.amd.com/gpu.",
    "gpu.intel.com/",
)

AMD_WHOLE = frozenset({"spx_nps1"})
"""Partitions of AMD's GPUs that are whole GPUs."""
_MIG_MEMORY = re.compile(r"\d+g\.(?P<gb>\d+)gb", re.ASCII)
_GIB = 1024**3


def find_vendor(resource: str) -> str | None:
    """Return the vendor of a GPU resource, or None if the resource is not a GPU."""
    return next((vendor for vendor, pattern in GPU_RESOURCES.items() if pattern.fullmatch(resource)), None)


_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def format_vendor(vendor: str) -> str:
    """Return a vendor's name in the vendor's spelling (``NVIDIA``).

    Return an unknown name unchanged, and "Other" for an empty name.
    """
    return _VENDOR_NAMES.get(vendor, vendor) or gettext_lazy("Other")


def is_gpu_label(key: str) -> bool:
    """Return whether a label is about a node's GPUs, judged by the prefix of its name."""
    return key.startswith(_GPU_LABEL_PREFIXES)


def slugify(text: str) -> str:
    """Return a text as a slug: lower-case letters and digits, with ``-`` and ``.`` only between them."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def parse_mig_profile(resource: str) -> str | None:
    """Return the MIG profile in a resource's name (``1g.5gb`` in ``nvidia.com/mig-1g.5gb``), or None without a profile.

    Only MIG strategy ``mixed`` has such names.
    """
    found = GPU_RESOURCES["nvidia"].fullmatch(resource)
    return found["profile"] if found else None


def parse_amd_partition(resource: str) -> str | None:
    """Return the partition in a resource's name (``cpx_nps4`` in ``amd.com/cpx_nps4``), or None for a whole GPU."""
    found = GPU_RESOURCES["amd"].fullmatch(resource)
    partition = found["partition"] if found else None
    return None if partition in AMD_WHOLE else partition


def parse_mig_memory(profile: str | None) -> int | None:
    """Return a MIG slice's memory in bytes, from its profile (``<slices>g.<memory>gb``), or None for any other text."""
    match = _MIG_MEMORY.match(profile or "")
    return int(match["gb"]) * _GIB if match else None


_GPU_LABEL_DOMAINS = (
    "nvidia.com/",
    "amd.com/",
    "gpu.intel.com/",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu",
    "karpenter.k8s.aws/instance-gpu",
    "eks.amazonaws.com/instance-gpu",
    "k8s.amazonaws.com/accelerator",
)
"""Prefixes of labels that only GPU nodes carry."""

_GENERAL_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "hub.jupyter.org/")
"""Prefixes of labels that nodes without GPUs carry, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchExpression:
    """One node selector requirement (core/v1 NodeSelectorRequirement).

    :param operator: ``In``, ``NotIn`` or ``DoesNotExist``.
    :param values: empty for ``DoesNotExist``.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


def build_gpu_node_exclusion(catalog: Catalog) -> tuple[MatchExpression, ...]:
    """Return node affinity that excludes GPU nodes, also those without a GPU type that users can choose.

    The result has one ``NotIn`` per label. It prefers labels that only GPU nodes carry, such as
    ``nvidia.com/gpu.product``, and never uses general labels, such as ``kubernetes.io/arch``.
    """
    values: dict[str, list[str]] = {}
    for gpu in (*catalog.gpus.values(), *catalog.hidden):
        for key in _list_gpu_keys(gpu.match):
            values.setdefault(key, []).extend(gpu.match[key])
    for key, more in catalog.untyped.items():
        values.setdefault(key, []).extend(more)
    return tuple(
        MatchExpression(key=key, operator="NotIn", values=tuple(dict.fromkeys(found))) for key, found in values.items()
    )


def matches_expressions(labels: Mapping[str, str], expressions: tuple[MatchExpression, ...]) -> bool:
    """Return whether a node with these labels meets all expressions; a missing label meets ``NotIn``."""
    return all(_matches_expression(labels, each) for each in expressions)


def _matches_expression(labels: Mapping[str, str], expression: MatchExpression) -> bool:
    if expression.operator == "DoesNotExist":
        return expression.key not in labels
    return (labels.get(expression.key) in expression.values) == (expression.operator == "In")


def _list_gpu_keys(match: Mapping[str, tuple[str, ...]]) -> list[str]:
    keys = [key for key, values in match.items() if values]
    return [key for key in keys if key.startswith(_GPU_LABEL_DOMAINS)] or [
        key for key in keys if not key.startswith(_GENERAL_LABELS)
    ]
