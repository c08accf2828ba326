"""`gpuspawner inventory`: lists GPU types and nodes as the hub sees them.

In: a ``ClusterView`` of ``gpuspawner.cli.cluster``. Out: rows for tables and JSON, where None means unknown. The
package must not count GPUs itself: it shows the counts of ``gpuspawner.core``.

- ``command``: arguments, ``--watch``, the report and the rights of the hub's ServiceAccount.
- ``gpu_type_rows``: GPU types with counts, taints and the users that may choose them.
- ``node_rows``: nodes, and why servers cannot get their GPUs.
"""

from gpuspawner.cli.inventory.command import InventoryReport, RightStatus, build_inventory_report, check_granted_rights
from gpuspawner.cli.inventory.gpu_type_rows import TypeAccess, TypeRow, build_type_rows
from gpuspawner.cli.inventory.node_rows import NodeGPUs, NodeRow, build_node_rows

__all__ = [
    "InventoryReport",
    "NodeGPUs",
    "NodeRow",
    "RightStatus",
    "TypeAccess",
    "TypeRow",
    "build_inventory_report",
    "build_node_rows",
    "build_type_rows",
    "check_granted_rights",
]
