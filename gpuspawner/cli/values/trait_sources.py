"""Finds the path in the values files at which an admin set a trait of KubeSpawner."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuspawner.cli.common.findings import Finding, KeyPath, Severity, format_path
from gpuspawner.cli.values.chart_config import (
    BASE_CHART_KEYS,
    CHART_KEYS,
    build_spawner_config,
    find_chart_path,
    get_configured_trait,
)
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.hub.admission.admin_traits import parse_admin_tolerations


class TraitSource(NamedTuple):
    """The value of a trait, and its path from the top of the files."""

    path: KeyPath
    value: Any


def find_trait_source(values: HelmValues, name: str) -> TraitSource | None:
    """Return the value that the admin gave a trait, or None if the files don't set it.

    :param values: the merged files.
    :param name: trait of KubeSpawner, such as ``mem_limit``.
    """
    *nearer, base = ((*HUB_CONFIG_PATH, section, name) for section in SPAWNER_SECTIONS)
    key = {**CHART_KEYS, **BASE_CHART_KEYS}.get(name)
    chart_paths = [] if key is None else [("singleuser", *key.split("."))]
    # The chart sets its traits on KubeSpawner, which hides the same traits in the section of its base class Spawner.
    base_paths = [] if find_chart_path(values.chart, name) else [base]
    for path in (*nearer, *chart_paths, *base_paths):
        value = values.get_chart_section(path[:-1]).get(path[-1])
        if value is not None:
            return TraitSource((*values.root, *path), value)
    return None


def list_pod_tolerations(values: HelmValues) -> tuple[Toleration, ...]:
    """Return the tolerations of every server, without those of its GPU type.

    :param values: the merged files.
    :raises SettingsError: the chart's values have a wrong type.
    """
    return parse_admin_tolerations(
        get_configured_trait(build_spawner_config(values.chart, namespace=""), "tolerations")
    )


def make_finding(
    values: HelmValues, path: KeyPath, *, severity: Severity, code: str, message: str, of_key: bool = False
) -> Finding:
    """Return a finding located at the line of its path.

    :param path: from the top of the files.
    :param of_key: locate the key instead of its value.
    """
    place = values.locate(path, of_key=of_key)
    return Finding(severity=severity, code=code, path=format_path(path), message=message, place=place)
