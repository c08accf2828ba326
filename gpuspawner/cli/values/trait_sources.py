"""Finds where in the files the values stand that :mod:`gpuspawner.cli.values.chart_config` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.admission.admin_traits import parse_admin_tolerations

_NODE_SELECTOR_TERMS_PATH = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


class TraitSource(NamedTuple):
    """A value, and the path from the top of the files where it is said."""

    path: KeyPath
    value: Any


def find_trait_source(values: HelmValues, name: str) -> TraitSource | None:
    """Return what an admin sets a trait of KubeSpawner to, None where the values say nothing."""
    *nearer, base = ((*HUB_CONFIG_PATH, section, name) for section in SPAWNER_SECTIONS)
    key = {**CHART_KEYS, **BASE_CHART_KEYS}.get(name)
    of_chart = [] if key is None else [("singleuser", *key.split("."))]
    # What the chart sets, it sets for KubeSpawner: the section of the class that that is based on does not count then.
    based = [] if find_chart_path(values.chart, name) else [base]
    for place in (*nearer, *of_chart, *based):
        said = values.get_chart_section(place[:-1]).get(place[-1])
        if said is not None:
            return TraitSource((*values.root, *place), said)
    return None


def list_pod_tolerations(values: HelmValues) -> tuple[Toleration, ...]:
    """Return what every server tolerates besides what its GPU type does, of values that are right."""
    return parse_admin_tolerations(
        get_configured_trait(build_spawner_config(values.chart, namespace=""), "tolerations")
    )


def find_node_selector_terms(values: HelmValues) -> TraitSource | None:
    """Return the node selector terms, of which every server's node must fit one, None where there are none.

    Those of the chart alone are left out, and so is what no configuration can be made of.
    """
    said = find_trait_source(values, "extra_pod_config")
    within: Any = said.value if said else None
    for key in _NODE_SELECTOR_TERMS_PATH:
        within = within.get(key) if isinstance(within, Mapping) else None
    if said and isinstance(within, list) and within:
        return TraitSource((*said.path, *_NODE_SELECTOR_TERMS_PATH), within)
    said = find_trait_source(values, "node_affinity_required")
    if not said:
        return None
    try:
        terms = get_configured_trait(build_spawner_config(values.chart, namespace=""), "node_affinity_required")
    except SettingsError:
        return None
    return TraitSource(said.path, _list_entries(terms)) if _list_entries(said.value) else None


def list_match_expressions(term: Any) -> list[Mapping[str, Any]]:
    """Return what a node selector term asks of a node's labels."""
    if not isinstance(term, Mapping):
        return []
    found = term.get("matchExpressions") or term.get("match_expressions")
    return [each for each in _list_entries(found) if isinstance(each, Mapping)]


def make_warning(values: HelmValues, path: Iterable[str | int], *, code: str, message: str) -> Finding:
    """Return a warning about a path from the top of the files."""
    path = tuple(path)
    place = values.locate(path)
    return Finding(severity=Severity.WARNING, code=code, path=format_path(path), message=message, place=place)


def _list_entries(value: Any) -> list[Any]:
    """Return entries, which KubeSpawner takes as a list or as a dict."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []
