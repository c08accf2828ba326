"""What autoscalers leave on the nodes they made: that there may be more, and whether those may be larger.

A label says that a pool exists, not that it grows; but a pool that may be there without any node is reason enough not
to call anything impossible.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuspawner.core.cluster.node_table import NodeGrouping, NodeTable

_ANY_SIZE_LABELS = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
"""Karpenter and EKS Auto Mode choose a machine for the pods that wait (https://karpenter.sh/docs/concepts/nodepools/)."""

_FIXED_SIZE_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
)
"""Pools of GKE, EKS, eksctl and AKS, whose nodes are all alike; one may have no node right now."""

_AUTOSCALER_GROUPING = NodeGrouping(presence=(*_ANY_SIZE_LABELS, *_FIXED_SIZE_LABELS))


class AutoscalerTraces(NamedTuple):
    """What may be added to a cluster, as its nodes tell.

    :param any_size: nodes of any size.
    :param fixed_size: nodes of pools of which no node may be there now.
    """

    any_size: bool
    fixed_size: bool


def find_autoscaler_traces(table: NodeTable) -> AutoscalerTraces:
    """Return what autoscalers left on the nodes of a cluster."""
    examples = [pool.example.labels for pool in table.group_nodes(_AUTOSCALER_GROUPING)]
    return AutoscalerTraces(
        any_size=any(key in labels for labels in examples for key in _ANY_SIZE_LABELS),
        fixed_size=any(key in labels for labels in examples for key in _FIXED_SIZE_LABELS),
    )
