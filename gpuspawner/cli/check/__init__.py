"""`gpuspawner check`: finds mistakes in Helm values files, without a cluster unless --cluster is given.

In: :class:`gpuspawner.cli.values.helm_values.HelmValues`, the merged files. Out: findings with file, line, path and
message. The room must not read a cluster except in ``cluster_warnings``, and changes nothing.

- ``command``: the command; ``collect_findings(values)`` runs all checks.
- ``settings_errors``: errors with which the hub would refuse to start.
- ``misplaced_values``: sections and keys that nothing reads, values of a wrong type.
- ``settings_warnings``: impossible limits, unknown GPU types, misspelled names.
- ``type_warnings``: GPU types and images that no server can use.
- ``chart_warnings``: values of the chart that contradict gpuspawner.
- ``cluster_warnings``: settings that the nodes of a cluster contradict.
"""

from gpuspawner.cli.check.cluster_warnings import compare_with_nodes, find_cluster_warnings, list_worker_nodes
from gpuspawner.cli.check.command import collect_findings

__all__ = ["collect_findings", "compare_with_nodes", "find_cluster_warnings", "list_worker_nodes"]
