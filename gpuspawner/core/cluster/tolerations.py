"""Which tainted nodes a pod may be put on.

As kube-scheduler's TaintToleration and NodeUnschedulable decide. The operators ``Lt`` and ``Gt`` (KEP-5471, feature
gate TaintTolerationComparisonOperators) are alpha and off in Kubernetes 1.36: with them a toleration tolerates nothing.
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
