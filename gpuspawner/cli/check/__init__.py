"""`gpuspawner check`: finds mistakes in Helm values files.

In: :class:`gpuspawner.cli.values.helm_values.HelmValues`, the merged files. Out: findings with file, line, path and
message. The package reads no cluster and changes nothing.

- ``command``: arguments and output; ``collect_findings(values)`` runs all checks.
- ``settings_errors``: values that keep the hub from starting.
- ``profile_errors``: profiles of a ``profile_list`` that KubeSpawner cannot show or start.
- ``misplaced_values``: sections and keys that nothing reads, values of a wrong type.
- ``settings_warnings``: GPU types that no server can use or that nothing defines, images without a CUDA version.
- ``chart_warnings``: values of zero-to-jupyterhub that contradict gpuspawner.
"""

__all__ = ["command"]
