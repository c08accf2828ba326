"""Puts a placement's entries into what the admin has: pure, as copies, in the shape the admin chose.

Required node selector terms are alternatives, so the placement's expressions go into each of them; everything else is
appended, without repetitions. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.hub.trait_overrides import copy_nested

_KEY = "gpuspawner"
"""Begins the keys of what is added to a dict of entries."""
_PREFERENCE_WEIGHT = 100


def escape_braces(text: str) -> str:
    """Return a text that KubeSpawner's ``{…}`` expansion leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def append_entries(admins: Any, entries: Iterable[dict[str, Any]]) -> Any:
    """Return the admin's list, or dict of entries (since KubeSpawner 7), with those added that it has not yet."""
    merged = copy_nested(admins) if admins else []
    known = list(merged.values()) if isinstance(merged, dict) else merged
    new = [entry for entry in entries if entry not in known]
    if not isinstance(merged, dict):
        return [*merged, *new]
    # KubeSpawner sorts by key; the key says whose entry it is, and differs from those that are there.
    return merged | {f"{_KEY}-{len(merged) + index}": entry for index, entry in enumerate(new)}


def merge_required_terms(
    admins: Any,
    expressions: tuple[MatchExpression, ...],
    *,
    alternatives: tuple[tuple[MatchExpression, ...], ...] = (),
) -> Any:
    """Return the admin's required terms, each with the expressions; a term of its own where there is none.

    :param alternatives: each term is repeated with each of them, so that one of both must hold.
    """
    terms = copy_nested(admins) if admins else []
    wanted = [[_format_expression(each) for each in (*expressions, *more)] for more in alternatives or ((),)]
    if not any(wanted):
        return terms
    if isinstance(terms, dict):
        return {
            key if index == 0 else f"{key}-{_KEY}-{index}": _narrow_term(term, each)
            for key, term in terms.items()
            for index, each in enumerate(wanted)
        }
    narrowed = [_narrow_term(term, each) for term in terms for each in wanted]
    return narrowed or [{"matchExpressions": each} for each in wanted]


def build_preferences(avoided: tuple[MatchExpression, ...]) -> list[dict[str, Any]]:
    """Return the preferred terms that keep a pod off nodes."""
    if not avoided:
        return []
    expressions = [_format_expression(each) for each in avoided]
    return [{"weight": _PREFERENCE_WEIGHT, "preference": {"matchExpressions": expressions}}]


def format_tolerations(tolerations: Iterable[Toleration]) -> list[dict[str, str]]:
    """Return tolerations as the API takes them: what is empty is left out."""
    return [
        {
            name: value
            for name, value in (
                ("key", each.key),
                ("operator", each.operator),
                ("value", each.value),
                ("effect", each.effect),
            )
            if value
        }
        for each in tolerations
    ]


def _narrow_term(term: Any, wanted: list[dict[str, Any]]) -> Any:
    """Return a node selector term that demands more.

    An empty term selects no node at all; it would select some with expressions in it, so it stays empty.
    """
    if not isinstance(term, dict):
        # An admin's Python configuration may hold V1NodeSelectorTerm objects; what is inside is kept as it is.
        term = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    expressions_key = "match_expressions" if "match_expressions" in term else "matchExpressions"
    own = list(term.get(expressions_key) or [])
    fields = term.get("matchFields") or term.get("match_fields")
    if not own and not fields:
        return term
    return {**term, expressions_key: [*own, *(each for each in wanted if each not in own)]}


def _format_expression(expression: MatchExpression) -> dict[str, Any]:
    values = {"values": list(expression.values)} if expression.values else {}
    return {"key": expression.key, "operator": expression.operator, **values}
