"""Reads the Kubernetes resources besides nodes and pods that decide whether and where a pod starts.

The modules take the hub's `kubernetes_asyncio` client and return values of `gpuspawner.core`. If the cluster lacks a
resource, or the hub may not read it, they return None or an empty value and raise no error.

- `dra_devices`: watch the DeviceClasses, ResourceSlices and ResourceClaims of Dynamic Resource Allocation (DRA).
- `karpenter_node_pools`: list Karpenter's NodePools every 10 s.
- `resource_quotas`: read on demand how much a namespace's ResourceQuotas leave for new pods, and read its
  LimitRanges.
- `volume_topology`: read on demand on which nodes the volumes of a pod's PersistentVolumeClaims can be mounted.
- `queue_places`: read on demand a pod's position in a queue of Kueue, and why Kueue does not admit the pod. For a pod
  that does not exist yet, read the queue's quotas and the priorities of the Workloads that wait there.
"""

from gpuspawner.kube.resources.dra_devices import DRADevices
from gpuspawner.kube.resources.karpenter_node_pools import KarpenterNodePools
from gpuspawner.kube.resources.queue_places import QueuePlaces
from gpuspawner.kube.resources.resource_quotas import LimitRanges, QuotasAPI, ResourceQuotas
from gpuspawner.kube.resources.volume_topology import VolumesAPI, VolumeTopology

__all__ = [
    "DRADevices",
    "KarpenterNodePools",
    "LimitRanges",
    "QueuePlaces",
    "QuotasAPI",
    "ResourceQuotas",
    "VolumeTopology",
    "VolumesAPI",
]
