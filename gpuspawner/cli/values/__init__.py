"""Reads Helm values files of zero-to-jupyterhub as Helm and the chart do.

In: names of files. Out: :class:`HelmValues` with the line of every value, the configuration that the chart would give
the hub's spawners, and objects that the hub and servers require. The package imports no command and reads no cluster.

- ``yaml_reader``: one YAML file, with positions and mistakes.
- ``helm_values``: several files merged; finds zero-to-jupyterhub's values if a parent chart has them below a key.
- ``chart_config``: KubeSpawner's traits that result from chart values; secrets and StorageClasses that these values
  require.
- ``trait_sources``: the path at which the files set a trait.
"""
