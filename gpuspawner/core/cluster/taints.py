"""Which tainted nodes a pod may be put on.

As kube-scheduler's TaintToleration and NodeUnschedulable decide. The operators ``Lt`` and ``Gt`` (KEP-5471, feature
gate TaintTolerationComparisonOperators) are alpha and off in Kubernetes 1.36: with them a toleration tolerates nothing.

Which nodes take new servers, and for which of the others that will pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.cluster.model import Node, Taint, Toleration

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_CORDON_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What a pod must tolerate to be put on a cordoned node (node_unschedulable.go)."""


def tolerates_taints(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether a pod with these tolerations may be put on a node as far as its taints go."""
    return next(find_untolerated_taints(node, tolerations), None) is None


def find_untolerated_taints(node: Node, tolerations: tuple[Toleration, ...]) -> Iterator[Taint]:
    """Yield the taints of a node that keep a pod with these tolerations away."""
    for taint in node.taints:
        if taint.effect in _BLOCKING_EFFECTS and not _is_tolerated(taint, tolerations):
            yield taint


def tolerates_cordon(tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether a pod with these tolerations may be put on a cordoned node."""
    return _is_tolerated(_CORDON_TAINT, tolerations)


def _is_tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates_taint(toleration, taint) for toleration in tolerations)


def _tolerates_taint(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False


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
