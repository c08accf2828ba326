"""`gpuspawner inventory`: lists GPU types and nodes as the hub sees them.

``gpuspawner.core`` counts the GPUs; this package only shows the counts.

- ``command``: arguments, ``--watch``, and the output as tables or JSON.
- ``rows``: the rows of the tables, one for each GPU type and one for each node; None means unknown.
"""

__all__ = ["command"]
