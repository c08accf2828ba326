"""Keeps the cluster's nodes and pods in memory, as read through the Kubernetes API.

The hub passes its `kubernetes_asyncio` client to :class:`ClusterStore`. `ClusterStore.read_inventory` returns an
:class:`~gpuspawner.core.cluster.state.Inventory`: the nodes and pods, what is unknown and why, and the age of the data.
The store raises no error if a request fails.

- `store`: combine all watches of the process in one :class:`ClusterStore`.
- `client`: send requests to the API server, parse its answers, check the hub's rights.
- `watch`: list and watch one resource.
- `resources`: read DRA devices, Karpenter NodePools, quotas, volumes and Kueue's queues.
"""
