"""`gpuspawner inventory`: lists GPU types and nodes as the hub sees them.

In: a ``ClusterView`` of ``gpuspawner.cli.cluster``. Out: rows for tables and JSON, where None means unknown. The
package must not count GPUs itself: it shows the counts of ``gpuspawner.core``.

- ``command``: arguments, ``--watch``, the report, and the rights of the impersonated ServiceAccount.
- ``rows``: a row for each GPU type (numbers of GPUs, taints, and the users that may choose the type), and a row for
  each node (GPUs, and why servers cannot get them).
"""

__all__ = ["command"]
