"""What zero-to-jupyterhub makes of its values before KubeSpawner reads them, as far as it matters here.

Its ``jupyterhub_config.py`` sets KubeSpawner's traits from ``singleuser`` and ``scheduling.userPods``; what stands in
``hub.config`` comes after that and takes their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuspawner.cli.chart import FOR_USERS, PURPOSE, at, set_by_chart
from gpuspawner.cli.findings import Finding, Path, Severity, dotted
from gpuspawner.cli.values import CONFIG, SPAWNERS, Values
from gpuspawner.core.catalogue import Toleration
from gpuspawner.hub.room import tolerations

_PURPOSE = ("scheduling", "userPods", "nodeAffinity", "matchNodePurpose")
_TRAITS = {
    "profile_list": ("singleuser", "profileList"),
    "node_selector": ("singleuser", "nodeSelector"),
    "node_affinity_required": ("singleuser", "extraNodeAffinity", "required"),
    "extra_resource_limits": ("singleuser", "extraResource", "limits"),
    "extra_resource_guarantees": ("singleuser", "extraResource", "guarantees"),
    "extra_pod_config": ("singleuser", "extraPodConfig"),
    "start_timeout": ("singleuser", "startTimeout"),
}
_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


class Said(NamedTuple):
    """A value, and the path from the top of the files where it is said."""

    path: Path
    value: Any


def trait(values: Values, name: str) -> Said | None:
    """Return what a trait of KubeSpawner is set to, None where the values say nothing."""
    *nearer, base = ((*CONFIG, section, name) for section in SPAWNERS)
    of_chart = [_TRAITS[name]] if name in _TRAITS else []
    # What the chart sets, it sets for KubeSpawner: the section of the class that that is based on does not count then.
    based = [] if set_by_chart(values.chart, name) else [base]
    for place in (*nearer, *of_chart, *based):
        section = values.at(place[:-1])
        if section.get(place[-1]) is not None:
            return Said((*values.root, *place), section[place[-1]])
    return None


def pod_tolerations(values: Values) -> tuple[Toleration, ...]:
    """Return what every server tolerates besides what its GPU type does."""
    if said := trait(values, "tolerations"):
        return tolerations(_list(said.value))
    common = at(values.chart, "scheduling.userPods.tolerations", default=list(FOR_USERS))
    extra = values.at(("singleuser",)).get("extraTolerations")
    return tolerations([*_list(common), *_list(extra)])


def required_terms(values: Values) -> Said | None:
    """Return the node selector terms, of which every server's node must fit one, None where there are none."""
    said = trait(values, "extra_pod_config")
    within: Any = said.value if said else None
    for key in _TERMS:
        within = within.get(key) if isinstance(within, Mapping) else None
    if said and isinstance(within, list) and within:
        return Said((*said.path, *_TERMS), within)
    said = trait(values, "node_affinity_required")
    terms = _list(said.value) if said else []
    if said and said.path[-1] == "required" and values.at(_PURPOSE[:-1]).get(_PURPOSE[-1]) == "require":
        terms = [*terms, {"matchExpressions": [PURPOSE]}]
    return Said(said.path, terms) if said and terms else None


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
