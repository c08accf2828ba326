"""Reads the Kubernetes resources besides nodes and pods that decide whether and where a pod starts.

Callers pass the hub's `kubernetes_asyncio` client and get objects of `gpuspawner.core`. Two classes, `DRADevices` and
`VolumeLimits`, return no objects: they watch resources and update an `Occupancy`, which counts what each node has free.
If the cluster lacks a resource, or the hub may not read the resource, the modules raise no error: the result is empty,
None or marked as unknown.

- `autoscaler_status`: read on demand whether the node groups of the cluster-autoscaler may grow.
- `dra_devices`: watch the DeviceClasses, ResourceSlices and ResourceClaims of Dynamic Resource Allocation (DRA).
- `karpenter_node_pools`: list Karpenter's NodePools every 10 s.
- `resource_quotas`: read on demand a namespace's LimitRanges, and how much its ResourceQuotas leave for new pods.
- `volume_topology`: read on demand on which nodes the volumes of a pod's PersistentVolumeClaims can be mounted; watch
  how many volumes each node may have.
- `queue_places`: read on demand a pod's position in a queue of Kueue, and why Kueue does not admit the pod. For a pod
  that does not exist yet, read the queue's quotas and the priorities of the Workloads that wait there.
"""
