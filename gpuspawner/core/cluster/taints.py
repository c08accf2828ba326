"""Match tolerations against taints and cordons, as kube-scheduler's plugins TaintToleration and NodeUnschedulable do.

A toleration with the operator ``Lt`` or ``Gt`` compares numbers (KEP-5471, feature gate
TaintTolerationComparisonOperators, alpha in Kubernetes 1.36). Without the feature gate, the API server refuses pods
with these operators (pkg/apis/core/validation/validation.go). For a pod that does not exist yet, gpuspawner does not
know whether the feature gate is on; :mod:`.decode` notes this in :attr:`.PodConstraints.undecided`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuspawner.core.cluster.model import Node, Taint, Toleration

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
"""Matches what ``Lt`` and ``Gt`` compare: decimal integers in canonical form (apimachinery, ``IsDecimalInteger``)."""
_INT64 = range(-(2**63), 2**63)
_CORDON_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""Taint of a cordoned node. A pod that tolerates the taint may run on the node (node_unschedulable.go)."""


def tolerates_taints(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether the tolerations cover all NoSchedule and NoExecute taints of a node."""
    return next(find_untolerated_taints(node, tolerations), None) is None


def find_untolerated_taints(node: Node, tolerations: tuple[Toleration, ...]) -> Iterator[Taint]:
    """Yield the NoSchedule and NoExecute taints of a node that the tolerations do not cover."""
    for taint in node.taints:
        if taint.effect in _BLOCKING_EFFECTS and not _is_tolerated(taint, tolerations):
            yield taint


def tolerates_cordon(tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether a pod with these tolerations may run on a cordoned node."""
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
        case "Gt" | "Lt":
            own, bound = _parse_decimal(taint.value), _parse_decimal(toleration.value)
            if own is None or bound is None:
                return False
            return own > bound if toleration.operator == "Gt" else own < bound
        case _:
            return False


def _parse_decimal(text: str) -> int | None:
    if not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


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
"""Prefixes of taints that mark a temporary state of a node. Kubernetes, autoscalers and cloud platforms set them while
a node starts, fails or is removed (https://kubernetes.io/docs/reference/labels-annotations-taints/)."""
_TRANSIENT_SUFFIX = "/agent-not-ready"
"""Suffix of taints that keep pods off a node until a daemon on the node has started (Cilium, AWS' CSI drivers)."""


def accepts_pods(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether a node's cordon and taints let new pods with these tolerations onto the node.

    Like kube-scheduler, the function does not check the condition Ready: a NotReady node has a taint that keeps pods
    off.
    """
    if node.unschedulable and not tolerates_cordon(tolerations):
        return False
    return not node.taints or tolerates_taints(node, tolerations)


def is_reserved_for_others(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether a permanent taint keeps pods with these tolerations off a node."""
    return bool(node.taints) and not all(map(is_transient_taint, find_untolerated_taints(node, tolerations)))


def is_transient_taint(taint: Taint) -> bool:
    """Return whether a taint marks a temporary state of the node, such as starting or being removed."""
    return taint.key.startswith(_TRANSIENT_PREFIXES) or taint.key.endswith(_TRANSIENT_SUFFIX)
