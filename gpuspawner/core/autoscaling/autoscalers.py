"""What autoscalers leave on the nodes they made: that there may be more, and whether those may be larger.

A label says that a pool exists, not that it grows; but a pool that may be there without any node is reason enough not
to call anything impossible.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuspawner.core.cluster.node_table import Layout, NodeTable

_ANY_SHAPE = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
"""Karpenter and EKS Auto Mode choose a machine for the pods that wait (https://karpenter.sh/docs/concepts/nodepools/)."""

_SAME_SHAPE = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
)
"""Pools of GKE, EKS, eksctl and AKS, whose nodes are all alike; one may have no node right now."""

_LAYOUT = Layout(presence=(*_ANY_SHAPE, *_SAME_SHAPE))


class Traces(NamedTuple):
    """What may be added to a cluster, as its nodes tell.

    :param any_shape: nodes of any size.
    :param pools: nodes of pools of which no node may be there now.
    """

    any_shape: bool
    pools: bool


def traces(table: NodeTable) -> Traces:
    """Return what autoscalers left on the nodes of a cluster."""
    examples = [pool.example.labels for pool in table.pools(_LAYOUT)]
    return Traces(
        any_shape=any(key in labels for labels in examples for key in _ANY_SHAPE),
        pools=any(key in labels for labels in examples for key in _SAME_SHAPE),
    )
