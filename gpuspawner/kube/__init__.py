"""Reads the cluster through the Kubernetes API and answers from memory: which nodes and pods exist.

The hub's `kubernetes_asyncio` client enters. An :class:`~gpuspawner.core.cluster.state.Inventory` leaves, which says
what is unknown, why, and how old the data is; reading it raises no error. Quotas, queue positions and volumes' nodes
leave through their own classes. The room knows neither JupyterHub nor settings, forms or users.

- `store`: one :class:`ClusterStore` for the process combines everything that is watched; the page sizes of lists.
- `client`: send requests, parse answers, check rights.
- `watch`: list and watch one resource.
- `resources`: DRA devices, Karpenter NodePools, quotas, volumes, Kueue's queues.
"""

from gpuspawner.kube.store import ClusterStore, CoreAPI, StoreTiming

__all__ = ["ClusterStore", "CoreAPI", "StoreTiming"]
