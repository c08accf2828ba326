"""Keeps a current copy of a Kubernetes resource's objects in memory: lists the resource once, then watches it.

Callers pass a list method of `kubernetes_asyncio` and an `ObjectCache`, which receives the decoded objects. `WatchLoop`
records when the data was last confirmed and, in a sentence for users, why data is missing.

- `watch_loop`: retry after failures, check rights, explain missing data to users.
- `watch`: send one list or watch request at a time, apply its events, and decide when the cache is known to be complete
  (confirmed).
- `object_caches`: decode nodes and pods and put them into the `Occupancy`, which counts what each node has free; apply
  a new list.
"""
