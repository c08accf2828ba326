"""Connects a command to a cluster and reads it as the hub would.

In: arguments of the command line and values files. Out: a connection, the catalog and inventory of one moment, and the
RBAC rights that the shipped roles grant. The room must not know commands, and changes nothing in the cluster.

- ``connection``: kubeconfig or ServiceAccount token, impersonation of the hub's ServiceAccount.
- ``cluster_view``: settings and cluster combined.
- ``shipped_roles``: the rights of ``helm-values/rbac.yaml``, and rights that no hub needs.
"""

from gpuspawner.cli.cluster.cluster_view import (
    ClusterView,
    ClusterViewer,
    add_view_arguments,
    open_cluster_viewer,
)
from gpuspawner.cli.cluster.connection import (
    ClusterConnection,
    ClusterError,
    add_account_arguments,
    add_cluster_arguments,
    connect_to_cluster,
)
from gpuspawner.cli.cluster.shipped_roles import build_role_grants, read_shipped_rights

__all__ = [
    "ClusterConnection",
    "ClusterError",
    "ClusterView",
    "ClusterViewer",
    "add_account_arguments",
    "add_cluster_arguments",
    "add_view_arguments",
    "build_role_grants",
    "connect_to_cluster",
    "open_cluster_viewer",
    "read_shipped_rights",
]
