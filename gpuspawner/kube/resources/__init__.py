"""Reads what scheduling depends on besides nodes and pods.

The hub's `kubernetes_asyncio` client enters; core's value types leave. A resource that is missing in the cluster or
that the hub may not read yields None or an empty value, never an error. The room knows neither settings nor users.

- `dra_devices`: watch device classes, slices and claims of Dynamic Resource Allocation.
- `karpenter_node_pools`: list Karpenter's NodePools every 10 s.
- `resource_quotas`: read the rest of a namespace's ResourceQuotas, on demand.
- `volume_topology`: read on which nodes a pod's claims can be mounted, on demand.
- `queue_positions`: read a pod's position in a queue of Kueue, on demand.
"""

from gpuspawner.kube.resources.dra_devices import DRADevices
from gpuspawner.kube.resources.karpenter_node_pools import KarpenterNodePools
from gpuspawner.kube.resources.queue_positions import QueuePositions
from gpuspawner.kube.resources.resource_quotas import QuotasAPI, ResourceQuotas
from gpuspawner.kube.resources.volume_topology import VolumesAPI, VolumeTopology

__all__ = [
    "DRADevices",
    "KarpenterNodePools",
    "QueuePositions",
    "QuotasAPI",
    "ResourceQuotas",
    "VolumeTopology",
    "VolumesAPI",
]
