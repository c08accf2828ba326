"""Finds where in the files the values stand that :mod:`gpuspawner.cli.values.chart` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuspawner.cli.common.findings import Finding, Path, Severity, dotted
from gpuspawner.cli.values.chart import OF_BASE, TRAITS, configured, set_by_chart, spawner_config
from gpuspawner.cli.values.values import CONFIG, SPAWNERS, Values
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.admission.room import tolerations

_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


class Said(NamedTuple):
    """A value, and the path from the top of the files where it is said."""

    path: Path
    value: Any


def trait(values: Values, name: str) -> Said | None:
    """Return what an admin sets a trait of KubeSpawner to, None where the values say nothing."""
    *nearer, base = ((*CONFIG, section, name) for section in SPAWNERS)
    key = {**TRAITS, **OF_BASE}.get(name)
    of_chart = [] if key is None else [("singleuser", *key.split("."))]
    # What the chart sets, it sets for KubeSpawner: the section of the class that that is based on does not count then.
    based = [] if set_by_chart(values.chart, name) else [base]
    for place in (*nearer, *of_chart, *based):
        said = values.at(place[:-1]).get(place[-1])
        if said is not None:
            return Said((*values.root, *place), said)
    return None


def pod_tolerations(values: Values) -> tuple[Toleration, ...]:
    """Return what every server tolerates besides what its GPU type does, of values that are right."""
    return tolerations(configured(spawner_config(values.chart, namespace=""), "tolerations"))


def required_terms(values: Values) -> Said | None:
    """Return the node selector terms, of which every server's node must fit one, None where there are none.

    Those of the chart alone are left out, and so is what no configuration can be made of.
    """
    said = trait(values, "extra_pod_config")
    within: Any = said.value if said else None
    for key in _TERMS:
        within = within.get(key) if isinstance(within, Mapping) else None
    if said and isinstance(within, list) and within:
        return Said((*said.path, *_TERMS), within)
    said = trait(values, "node_affinity_required")
    if not said:
        return None
    try:
        terms = configured(spawner_config(values.chart, namespace=""), "node_affinity_required")
    except SettingsError:
        return None
    return Said(said.path, _list(terms)) if _list(said.value) else None


def expressions(term: Any) -> list[Mapping[str, Any]]:
    """Return what a node selector term asks of a node's labels."""
    if not isinstance(term, Mapping):
        return []
    found = term.get("matchExpressions") or term.get("match_expressions")
    return [each for each in _list(found) if isinstance(each, Mapping)]


def warning(values: Values, path: Iterable[str | int], *, code: str, message: str) -> Finding:
    """Return a warning about a path from the top of the files."""
    path = tuple(path)
    place = values.where(path)
    return Finding(severity=Severity.WARNING, code=code, path=dotted(path), message=message, place=place)


def _list(value: Any) -> list[Any]:
    """Return entries, which KubeSpawner takes as a list or as a dict."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []
