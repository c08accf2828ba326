"""Which nodes take new servers, and for which of the others that will pass."""

from __future__ import annotations

from gpuspawner.core.cluster.model import Node, Taint, Toleration
from gpuspawner.core.cluster.tolerations import find_untolerated_taints, tolerates_cordon, tolerates_taints

_TRANSIENT_PREFIXES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.gardener.cloud/",
    "cloud.google.com/impending-node-termination",
)
"""Beginnings of taints that say what a node is going through, not whom it is for: those of Kubernetes' node life cycle
(https://kubernetes.io/docs/reference/labels-annotations-taints/), of the autoscalers when they add or remove a node,
and of the platform when it does."""
_TRANSIENT_SUFFIX = "/agent-not-ready"
"""End of taints that daemons take away themselves once they have started (Cilium's, those of AWS' CSI drivers)."""


def accepts_pods(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether a node takes new servers with these tolerations right now.

    As for kube-scheduler, only a cordon and taints say that it does not: a node that is not ready gets taints.
    """
    if node.unschedulable and not tolerates_cordon(tolerations):
        return False
    return not node.taints or tolerates_taints(node, tolerations)


def is_reserved_for_others(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether a node is for others: a taint that lasts keeps servers with these tolerations away for good."""
    return bool(node.taints) and not all(map(is_transient_taint, find_untolerated_taints(node, tolerations)))


def is_transient_taint(taint: Taint) -> bool:
    """Tell whether a taint says that something is going on at a node, which will be over."""
    return taint.key.startswith(_TRANSIENT_PREFIXES) or taint.key.endswith(_TRANSIENT_SUFFIX)
