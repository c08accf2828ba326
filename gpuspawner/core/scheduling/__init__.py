"""Decide whether kube-scheduler would bind a pod now, and name the obstacles if not.

In: a pod (pending, or not created yet) and an :class:`~gpuspawner.core.cluster.state.Occupancy`.
Out: YES, NO or UNKNOWN, for one node (:class:`FitResult`) or the whole cluster (:class:`ScanResult`), with obstacles:
the reasons why a node does not accept the pod.
This package does not depend on GPU types, autoscalers or users. In its results, a node also accepts a pod if
kube-scheduler can make room for the pod there by preempting pods of lower priority.

- ``scan``: checks one node, or all nodes at once; ``results``: the values that ``scan`` returns
- ``node_filters``: taints, node affinity, volumes; compares the pod's requests with the node's free amounts
- ``pod_filters``: host ports and nominated pods
- ``pod_topology``: the constraints that depend on where other pods already run: pod affinity, anti-affinity and
  topology spread
"""
