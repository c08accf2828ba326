"""Which nodes have GPUs by their labels, whether or not a device plugin offers any of them (yet)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
)
from gpuspawner.core.catalog.avoidance import MatchExpression, matches_expressions
from gpuspawner.core.cluster.model import Node

GPU_NODE_LABELS = (
    # Set by NVIDIA's GPU Operator before there is a driver, to "false" where the card is gone.
    "nvidia.com/gpu.present",
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    AMD_PRODUCT,
    INTEL_PRODUCT,
    *(f"{prefix}instance-gpu-name" for prefix in KARPENTER_PREFIXES),
    # https://learn.microsoft.com/azure/aks/use-labels
    "kubernetes.azure.com/accelerator",
)
"""Labels that clouds and vendors put on nodes with GPUs, and on no others."""


def find_gpu_node_label(labels: Mapping[str, str]) -> str | None:
    """Return the label that says that a node has GPUs, None where none does."""
    return next((key for key in GPU_NODE_LABELS if labels.get(key, "false") != "false"), None)


def find_unexcluded_gpu_nodes(
    nodes: Iterable[Node], exclusion: tuple[MatchExpression, ...]
) -> dict[str, tuple[str, ...]]:
    """Return label → values of nodes with GPUs that servers without one are not kept off.

    There is no GPU type there to do so: the driver is still being installed, or nobody is offered what they have.

    :param exclusion: what servers without a GPU ask of a node.
    """
    found: dict[str, set[str]] = {}
    for node in nodes:
        key = find_gpu_node_label(node.labels)
        if key is not None and matches_expressions(node.labels, exclusion):
            found.setdefault(key, set()).add(node.labels[key])
    return {key: tuple(sorted(values)) for key, values in sorted(found.items())}
