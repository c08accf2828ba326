"""Reads Helm values files of zero-to-jupyterhub as Helm and the chart do.

In: names of files. Out: :class:`HelmValues` with the line of every value, the configuration that the chart would give
the hub's spawners, and objects that the hub and servers require. The package imports no command and reads no cluster.

- ``yaml_reader``: one YAML file, with positions and mistakes.
- ``helm_values``: several files merged; finds zero-to-jupyterhub's values if a parent chart has them below a key.
- ``chart_config``: KubeSpawner's traits that result from chart values; secrets and StorageClasses that these values
  require.
- ``trait_sources``: the path at which the files set a trait.
"""

from gpuspawner.cli.values.chart_config import (
    ChartRequirements,
    build_spawner_config,
    get_chart_value,
    get_configured_trait,
    read_chart_requirements,
)
from gpuspawner.cli.values.helm_values import HelmValues, add_values_argument, load_values, merge_settings, read_values
from gpuspawner.cli.values.trait_sources import find_trait_source

__all__ = [
    "ChartRequirements",
    "HelmValues",
    "add_values_argument",
    "build_spawner_config",
    "find_trait_source",
    "get_chart_value",
    "get_configured_trait",
    "load_values",
    "merge_settings",
    "read_chart_requirements",
    "read_values",
]
