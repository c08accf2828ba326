"""Model the cluster: nodes, pods, their constraints, and what each node has free.

In: Kubernetes objects as the API's JSON. Out: immutable values, and :class:`Occupancy`, which is updated in place.
This package does not depend on GPU types, users or the hub. It compares one constraint with one node or pod; the
package ``scheduling`` combines the results.

- ``model``: the values for nodes, pods and constraints; ``dra``: DRA devices, and how many each node has
- ``state``: :class:`Occupancy`, all nodes and pods with free amounts; :class:`Inventory`, the data that could be read
- ``decode``, ``decode_selectors``: decode JSON into values; equal values share one object
- ``pod_requests``: what a pod requests of a node: CPU, memory, huge pages, GPUs and other devices
- ``selectors``, ``taints``: match node selectors, node affinity, pod affinity and tolerations against nodes, pods and
  namespaces
- ``volumes``: the volumes on each node, and how many volumes CSI drivers may attach to a node
- ``pod_indexes``: the anti-affinity and the claims of bound pods
- ``node_groups``: groups of equivalent nodes, for checks of a pod against thousands of nodes
"""
