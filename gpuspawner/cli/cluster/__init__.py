"""Connects a command to a cluster and reads the cluster as the hub does.

In: arguments of the command line and values files. Out: a connection to the cluster, its state at one moment, the GPU
types and images that users can choose then, and the RBAC rights that ``helm-values/rbac.yaml`` grants. The package
imports no command and changes nothing in the cluster.

- ``connection``: connects with a kubeconfig or ServiceAccount token, and may impersonate the hub's ServiceAccount.
- ``cluster_view``: the state of a cluster with the settings applied.
- ``offline_spawner``: a spawner that builds pods without a hub; commands may even use it without a cluster.
- ``shipped_roles``: reads the hub's rights from ``helm-values/rbac.yaml``; lists dangerous rights that no hub needs.
"""
