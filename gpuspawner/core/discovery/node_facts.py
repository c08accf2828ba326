"""Read facts about nodes: spot capacity, NVLink and GPUs from their labels, and the largest node.

A GPU type is marked as spot or NVLink only if it selects nodes by a label that shows this fact, or if all existing
nodes of the type have such a label.
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
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.catalog.node_labels import MatchExpression, matches_expressions
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory

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
"""Label → value that marks a node that the cloud may reclaim."""

_CLIQUE = "nvidia.com/gpu.clique"
"""Label in which GPU Feature Discovery names the NVLink fabric of a node's GPUs (``lm/imex.go``). Nodes without a
fabric do not have the label."""

_LabelTest = Callable[[str, str], bool]


def is_spot(gpu: GPUType, nodes: Iterable[Mapping[str, str]]) -> bool:
    """Return whether the cloud may reclaim every node of a type (spot capacity).

    :param nodes: the labels of each existing node of the type.
    """
    return _holds_on_each_node(gpu, nodes, test=lambda key, value: SPOT_LABELS.get(key) == value)


def find_interconnect(gpu: GPUType, nodes: Iterable[Mapping[str, str]], *, table: AcceleratorTable) -> str | None:
    """Return ``NVLink`` if NVLink connects the GPUs of a server with several GPUs of a type, else None.

    The result is None for MIG slices, which NVLink does not connect
    (https://docs.rapids.ai/deployment/stable/guides/mig), and for shared GPUs, because several shares may belong to one
    GPU. It is None for other vendors' GPUs, because NVIDIA's labels on the node do not describe these, and for types
    with a ``max_count`` of 1.

    :param nodes: the labels of each existing node of the type.
    """
    if gpu.vendor != "nvidia" or gpu.unit is not UnitKind.CARD or gpu.max_count == 1:
        return None
    is_linked = _holds_on_each_node(gpu, nodes, test=lambda key, value: key == _CLIQUE or table.has_nvlink(key, value))
    return "NVLink" if is_linked else None


def _holds_on_each_node(gpu: GPUType, nodes: Iterable[Mapping[str, str]], *, test: _LabelTest) -> bool:
    if any(values and all(test(key, value) for value in values) for key, values in gpu.match.items()):
        return True
    found = [any(test(key, value) for key, value in labels.items()) for labels in nodes]
    return bool(found) and all(found)


GPU_NODE_LABELS = (
    # NVIDIA's GPU Operator sets this label before the driver is installed. On nodes without a GPU, it is "false".
    "nvidia.com/gpu.present",
    GFD_PRODUCT,
    GKE_ACCELERATOR,
    AMD_PRODUCT,
    INTEL_PRODUCT,
    *(f"{prefix}instance-gpu-name" for prefix in KARPENTER_PREFIXES),
    # https://learn.microsoft.com/azure/aks/use-labels
    "kubernetes.azure.com/accelerator",
)
"""Labels that show that a node has GPUs, unless the value is ``"false"``. Clouds and vendors set them."""


def find_gpu_node_label(labels: Mapping[str, str]) -> str | None:
    """Return the name of a label that shows that a node has GPUs, or None if no label does.

    :param labels: all labels of the node.
    """
    return next((key for key in GPU_NODE_LABELS if labels.get(key, "false") != "false"), None)


def find_unexcluded_gpu_nodes(
    nodes: Iterable[Node], exclusion: tuple[MatchExpression, ...]
) -> dict[str, tuple[str, ...]]:
    """Return label → values of GPU nodes that a node affinity does not exclude yet.

    The node affinity keeps servers without a GPU off the nodes of all GPU types. It may miss GPU nodes that belong to
    no GPU type: their driver is still being installed, or the catalog has no type for their GPUs. With the result, the
    caller excludes these nodes, too.

    :param exclusion: expressions of the node affinity.
    """
    found: dict[str, set[str]] = {}
    for node in nodes:
        key = find_gpu_node_label(node.labels)
        if key is not None and matches_expressions(node.labels, exclusion):
            found.setdefault(key, set()).add(node.labels[key])
    return {key: tuple(sorted(values)) for key, values in sorted(found.items())}


def find_largest_node(inventory: Inventory) -> tuple[int, int] | None:
    """Return allocatable CPU (millicores) and memory (bytes) of the node with the most memory, or None without nodes.

    Nodes with a taint of the control plane (``node-role.kubernetes.io/…``) do not count. Nodes with other taints count,
    because a GPU type may tolerate these taints.
    """
    sizes = [
        (node.allocatable.get("memory", 0), node.allocatable.get("cpu", 0))
        for node in inventory.nodes or ()
        if not any(taint.key.startswith("node-role.kubernetes.io/") for taint in node.taints)
    ]
    if not sizes:
        return None
    memory, cpu = max(sizes)
    return cpu, memory
