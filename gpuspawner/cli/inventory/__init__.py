"""`gpuspawner inventory`: lists GPU types and nodes as the hub sees them.

In: a ``ClusterView`` of ``gpuspawner.cli.cluster``. Out: rows for tables and JSON, where None means unknown. The
package must not count GPUs itself: it shows the counts of ``gpuspawner.core``.

- ``command``: arguments, ``--watch``, the report, and the rights of the impersonated ServiceAccount.
- ``rows``: GPU types with counts, taints, and the users that may choose the type; nodes, and why servers cannot get a
  node's GPUs.
"""

__all__ = ["command"]
