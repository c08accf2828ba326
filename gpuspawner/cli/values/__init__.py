"""Reads Helm values files of zero-to-jupyterhub as Helm and the chart do.

In: names of files. Out: :class:`HelmValues` with the line of every value, the configuration that the chart would give
the hub's spawners, and what servers require of the cluster. The room must not know commands or a cluster.

- ``yaml_reader``: one YAML file, with positions and mistakes.
- ``helm_values``: several files merged; finds the chart's values below a parent chart's key.
- ``chart_config``: chart values → traits of KubeSpawner.
- ``trait_sources``: where the files set a trait.
- ``chart_requirements``: secrets, StorageClasses and rights that the values require.
"""
