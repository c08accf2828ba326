"""Finds the path in the values files at which an admin set a trait of KubeSpawner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuspawner.cli.common.findings import Finding, Severity, format_path
from gpuspawner.cli.values.chart_config import (
    BASE_CHART_KEYS,
    CHART_KEYS,
    build_spawner_config,
    find_chart_path,
    get_configured_trait,
)
from gpuspawner.cli.values.helm_values import HUB_CONFIG_PATH, SPAWNER_SECTIONS, HelmValues
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.errors import SettingsError
from gpuspawner.core.json_access import KeyPath
from gpuspawner.hub.pod.merge import parse_admin_tolerations

_NODE_SELECTOR_TERMS_PATH = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
"""Path of the node selector terms in a pod's spec."""


class TraitSource(NamedTuple):
    """The value of a trait, and the keys that lead to the value in the Helm values files."""

    path: KeyPath
    value: Any


def find_trait_source(values: HelmValues, name: str) -> TraitSource | None:
    """Return the value that the admin gave a trait, with the value's path, or None if the files don't set the trait.

    :param values: the merged values files.
    :param name: trait of KubeSpawner, such as ``mem_limit``.
    """
    *nearer, base = ((*HUB_CONFIG_PATH, section, name) for section in SPAWNER_SECTIONS)
    key = {**CHART_KEYS, **BASE_CHART_KEYS}.get(name)
    chart_paths = [] if key is None else [("singleuser", *key.split("."))]
    # Skip hub.config.Spawner if the chart sets the trait on KubeSpawner, because KubeSpawner's traits override those of
    # its base class Spawner.
    base_paths = [] if find_chart_path(values.chart, name) else [base]
    for path in (*nearer, *chart_paths, *base_paths):
        value = values.get_chart_section(path[:-1]).get(path[-1])
        if value is not None:
            return TraitSource((*values.root, *path), value)
    return None


def list_pod_tolerations(values: HelmValues) -> tuple[Toleration, ...]:
    """Return the tolerations that every server gets from the values, whichever GPU type the user picks.

    :param values: the merged values files.
    :raises SettingsError: the chart's values have a wrong type.
    """
    return parse_admin_tolerations(
        get_configured_trait(build_spawner_config(values.chart, namespace=""), "tolerations")
    )


def find_node_selector_terms(values: HelmValues) -> TraitSource | None:
    """Return the node selector terms of every server, with their path in the files. A node must match one term.

    The result is None if the admin wrote no terms, or if the values have a wrong type. Terms in
    ``extraPodConfig.affinity`` replace those of ``extraNodeAffinity`` and the chart's own term.

    :param values: the merged values files.
    """
    source = find_trait_source(values, "extra_pod_config")
    entry: Any = source.value if source else None
    for key in _NODE_SELECTOR_TERMS_PATH:
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    if source and isinstance(entry, list) and entry:
        return TraitSource((*source.path, *_NODE_SELECTOR_TERMS_PATH), entry)
    source = find_trait_source(values, "node_affinity_required")
    if not source or not _list_entries(source.value):
        return None
    try:
        terms = get_configured_trait(build_spawner_config(values.chart, namespace=""), "node_affinity_required")
    except SettingsError:
        return None
    return TraitSource(source.path, _list_entries(terms))


def list_match_expressions(term: Any) -> list[Mapping[str, Any]]:
    """Return the match expressions of a node selector term, or [] if the term is not a mapping.

    :param term: a term as in a pod's spec, or with KubeSpawner's key ``match_expressions``.
    """
    if not isinstance(term, Mapping):
        return []
    expressions = term.get("matchExpressions") or term.get("match_expressions")
    return [expression for expression in _list_entries(expressions) if isinstance(expression, Mapping)]


def _list_entries(value: Any) -> list[Any]:
    """Return the entries of a list, or the values of a mapping, because KubeSpawner accepts both for a trait."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def make_finding(
    values: HelmValues, path: KeyPath, *, severity: Severity, code: str, message: str, of_key: bool = False
) -> Finding:
    """Return a finding about a path in the files, with the position from :meth:`.HelmValues.locate`.

    If the files lack the path, the position is that of its nearest parent. If the files also lack all parents, the
    finding has no position.

    :param path: keys and list indexes from the top of the files.
    :param of_key: whether the position of a scalar is that of its key, not of its value.
    """
    place = values.locate(path, of_key=of_key)
    return Finding(severity=severity, code=code, path=format_path(path), message=message, place=place)
