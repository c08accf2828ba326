"""Names that only the cluster can confirm, and that look like a well-known one written wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    strip_product_suffix,
)
from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE, parse_reference
from gpuspawner.core.catalog.node_gpus import find_vendor
from gpuspawner.core.catalog.platforms import PLATFORM_LABELS
from gpuspawner.core.discovery.node_facts import SPOT_LABELS
from gpuspawner.core.errors import Problem
from gpuspawner.core.text.quoting import quote
from gpuspawner.settings.accelerators import load_builtin_accelerators
from gpuspawner.settings.gpu_entries import GPUEntry
from gpuspawner.settings.models import SettingsModel

_NEAR = 0.85
KNOWN_LABELS = frozenset(
    {
        *(GFD_PRODUCT, GKE_ACCELERATOR, AMD_PRODUCT, INTEL_PRODUCT),
        *SPOT_LABELS,
        *PLATFORM_LABELS,
        *(f"{prefix}instance-{what}" for prefix in KARPENTER_PREFIXES for what in ("family", "category", "size")),
        *(f"{prefix}instance-gpu-{what}" for prefix in KARPENTER_PREFIXES for what in ("name", "count", "memory")),
        *(f"nvidia.com/gpu.{what}" for what in ("count", "family", "memory", "present", "replicas")),
        *("nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy", "nvidia.com/mig.config"),
        *(f"cloud.google.com/gke-{what}" for what in ("gpu-sharing-strategy", "gpu-partition-size", "nodepool")),
        "cloud.google.com/gke-max-shared-clients-per-gpu",
        *("kubernetes.azure.com/accelerator", "kubernetes.azure.com/agentpool", "k8s.amazonaws.com/accelerator"),
        *("kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "node.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "eks.amazonaws.com/nodegroup"),
        *("karpenter.sh/nodepool", "hub.jupyter.org/node-purpose", "amd.com/gpu.compute-memory-partition"),
    }
)
"""Labels of nodes that GPU types are told by, as vendors and clouds set them."""
_TAINTS = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "kubernetes.azure.com/scalesetpriority"}
    | {"kubernetes.io/arch", "hub.jupyter.org/dedicated", "hub.jupyter.org_dedicated", "sku"}
)
_RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
_ARCHITECTURES = ("amd64", "arm64", "arm", "ppc64le", "riscv64", "s390x", "386")


def find_misspelled_names(model: SettingsModel) -> Iterator[Problem]:
    """Yield the names in settings that are most likely written wrongly, as paths below the section."""
    for slug, gpu in model.gpus.items():
        if gpu.enabled:
            yield from _check_gpu_names(f"gpus.{slug}", gpu)
    for slug, image in model.images.items():
        if image.enabled and image.image and parse_reference(image.image) is None:
            message = f"is no reference of an image that a node could pull, such as {EXAMPLE_REFERENCE}"
            yield Problem(field=f"images.{slug}.image", code="doubtful", message=message)
        for index, architecture in enumerate(image.architectures):
            if architecture not in _ARCHITECTURES:
                message = (
                    f"is no architecture that nodes have: they are called {', '.join(_ARCHITECTURES[:2])} and so on"
                )
                yield Problem(field=f"images.{slug}.architectures.{index}", code="doubtful", message=message)


def _check_gpu_names(path: str, gpu: GPUEntry) -> Iterator[Problem]:
    if gpu.resource and find_vendor(gpu.resource) is None:
        yield from _check_name(f"{path}.resource", gpu.resource, known=_RESOURCES)
    for key, labels in gpu.match.items():
        yield from _check_name(f"{path}.match.{key}", key, known=KNOWN_LABELS)
        for index, value in enumerate(labels):
            product = strip_product_suffix(value) if key == GFD_PRODUCT else value
            field = f"{path}.match.{key}.{index}" if len(labels) > 1 else f"{path}.match.{key}"
            yield from _check_name(field, product, known=_list_model_values(key))
    for index, toleration in enumerate(gpu.tolerations or ()):
        yield from _check_name(f"{path}.tolerations.{index}.key", toleration.key, known=_TAINTS | {gpu.resource or ""})
    if gpu.runtime_class:
        yield from _check_name(f"{path}.runtime_class", gpu.runtime_class, known=_RUNTIME_CLASSES)


def _check_name(field: str, name: str, *, known: Iterable[str]) -> Iterator[Problem]:
    known = frozenset(known)
    near = [] if name in known else get_close_matches(name, known, n=1, cutoff=_NEAR)
    if near:
        message = f"may be written wrongly: {quote(name)} is not well known. Did you mean {quote(near[0])}?"
        yield Problem(field=field, code="doubtful", message=message)


def _list_model_values(key: str) -> frozenset[str]:
    """Return the values of a label that stand for known models."""
    sources = {GFD_PRODUCT: "gfd", GKE_ACCELERATOR: "gke", AMD_PRODUCT: "amd", INTEL_PRODUCT: "intel"}
    sources |= {f"{prefix}instance-gpu-name": "karpenter" for prefix in KARPENTER_PREFIXES}
    models = load_builtin_accelerators().values()
    return frozenset(name for model in models for name in model.labels.get(sources.get(key, ""), ()))
