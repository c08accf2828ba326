"""Keeps the objects of a resource in memory up to date: one list, then watches.

A list method of `kubernetes_asyncio` enters. Decoded objects reach an `ObjectCache`; the age of the data and a
translated reason for missing data leave through `WatchLoop`. The room knows no DRA, Karpenter, forms or users.

- `watch_loop`: retry after failures, check rights, give reasons in text for users.
- `watch`: one list and one watch request at a time, when the data counts as confirmed, and fewer
  full garbage collections during large lists.
- `pending_events`: keep the last event of each object until it is applied, and apply a new list.
- `read_batching`: pause reading from the connection so that events are processed in batches.
- `object_caches`: decode nodes and pods and put them into the `Occupancy`.
"""

from gpuspawner.kube.watch.object_caches import NodeCache, ObjectCache, PodCache
from gpuspawner.kube.watch.watch import Watch, WatchedResource, WatchTiming
from gpuspawner.kube.watch.watch_loop import RetryDelays, WatchLoop

__all__ = [
    "NodeCache",
    "ObjectCache",
    "PodCache",
    "RetryDelays",
    "Watch",
    "WatchLoop",
    "WatchTiming",
    "WatchedResource",
]
