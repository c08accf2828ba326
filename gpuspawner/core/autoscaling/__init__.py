"""Predict which nodes an autoscaler may add, and whether a pod would run on one of them.

In: the ``scale_up`` settings of GPU types, Karpenter's NodePools, existing nodes, the cluster-autoscaler's status.
Out: :class:`~gpuspawner.core.cluster.model.ScalableNodePool`, and whether a pod would run on a new node of a pool.
This package does not predict when or in which order pods start; the package ``verdict`` does.

- ``node_pools``: pools from settings, checks of a pod against a pool
- ``karpenter``: pools from Karpenter's NodePools
- ``cluster_autoscaler``: the node groups of the cluster-autoscaler, without what their nodes are
"""
