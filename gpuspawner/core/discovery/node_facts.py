"""What people should know of a GPU type's nodes before they pick it: may the cloud take them back, is there NVLink.

Said only where it is so on each of them: the type's match asks for a label that says it, or all nodes that are there
carry one. Where only some do, nothing is said.

Which nodes have GPUs by their labels, whether or not a device plugin offers any of them (yet).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpuspawner.core.catalog.accelerators import (
    AMD_PRODUCT,
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    INTEL_PRODUCT,
    KARPENTER_PREFIXES,
    AcceleratorTable,
)
from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression, matches_expressions
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.cluster.model import Node

SPOT_LABELS = {
    # https://karpenter.sh/docs/concepts/scheduling/#well-known-labels
    "karpenter.sh/capacity-type": "spot",
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types
    "eks.amazonaws.com/capacityType": "SPOT",
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
    "cloud.google.com/gke-spot": "true",
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/preemptible-vms
    "cloud.google.com/gke-preemptible": "true",
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Labels of nodes that the cloud may take back, with the value that says so."""

NVLINK = "NVLink"
_CLIQUE = "nvidia.com/gpu.clique"
"""Which NVLink fabric the GPUs are in, by GPU Feature Discovery; not there without one (``lm/imex.go``)."""

_LabelTest = Callable[[str, str], bool]


def is_spot(gpu: GPUType, nodes: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether the cloud may take back every node of a type.

    :param nodes: labels of those that are there.
    """
    return _holds_on_each_node(gpu, nodes, test=lambda key, value: SPOT_LABELS.get(key) == value)


def find_interconnect(gpu: GPUType, nodes: Iterable[Mapping[str, str]], *, table: AcceleratorTable) -> str | None:
    """Return what links the GPUs that a server gets of a type, None where that is not known or it gets one at most.

    Slices are not linked (https://docs.rapids.ai/deployment/stable/guides/mig), and shares may be of the same GPU. What
    labels say of NVIDIA's GPUs says nothing of another vendor's in the same node.

    :param nodes: labels of those that are there.
    """
    if gpu.vendor != "nvidia" or gpu.unit is not UnitKind.CARD or gpu.max_count == 1:
        return None
    is_linked = _holds_on_each_node(gpu, nodes, test=lambda key, value: key == _CLIQUE or table.has_nvlink(key, value))
    return NVLINK if is_linked else None


def _holds_on_each_node(gpu: GPUType, nodes: Iterable[Mapping[str, str]], *, test: _LabelTest) -> bool:
    """Tell whether each node of a type has a label that says something, also one that is yet to come."""
    if any(values and all(test(key, value) for value in values) for key, values in gpu.match.items()):
        return True
    found = [any(test(key, value) for key, value in labels.items()) for labels in nodes]
    return bool(found) and all(found)


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
