"""Merges the scheduling requirements of a user's choice into copies of the admin's lists or dicts.

A node needs to match only one of the required node selector terms, so the choice's expressions are added to each term:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/. The choice's other requirements, such
as tolerations, are appended to the admin's lists.

A ``kubespawner_override`` of the settings is laid over the admin's values first (:class:`OverriddenValues`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.hub.trait_overrides import copy_nested

_KEY = "gpuspawner"
"""Part of each key that gpuspawner adds to an admin's dict, such as ``gpuspawner-2``."""
_PREFERENCE_WEIGHT = 100


class AdminValues(Protocol):
    """Mapping from a trait's name to the value that the admin has given this trait."""

    def __getitem__(self, trait: str) -> Any: ...


class OverriddenValues:
    """The admin's trait values with ``kubespawner_override`` values laid over them, as KubeSpawner does for profiles.

    If an override and the trait are both mappings, they are merged; a key with the value null is removed. Any other
    override replaces the trait's value (``KubeSpawner._apply_overrides``).

    :param base: the admin's value of each trait; it stays unchanged.
    :param layers: the overrides, each a mapping from the name of a trait to its value. If several overrides set a
        trait, a later one is laid over the earlier ones.
    """

    def __init__(self, base: AdminValues, layers: Iterable[Mapping[str, Any]]) -> None:
        self._base = base
        self.changed: dict[str, Any] = {}
        for layer in layers:
            for trait, value in layer.items():
                before = self[trait] if isinstance(value, Mapping) else None
                self.changed[trait] = _merge_mapping(before, value) if isinstance(before, dict) else copy_nested(value)

    def __getitem__(self, trait: str) -> Any:
        """Return the value of a trait after the overrides have been laid over it."""
        return self.changed[trait] if trait in self.changed else self._base[trait]


def _merge_mapping(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = copy_nested(dict(before))
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            inside = merged.setdefault(key, {})
            if isinstance(inside, dict):
                merged[key] = _merge_mapping(inside, value)
            elif value:  # The old value is no mapping: KubeSpawner raises an error here.
                merged[key] = _merge_mapping({}, value)
        else:
            merged[key] = copy_nested(value)
    return merged


def escape_braces(text: str) -> str:
    """Double the braces in a text, so that the text stays unchanged when KubeSpawner expands it as a template.

    :param text: text that may contain braces.
    """
    return text.replace("{", "{{").replace("}", "}}")


def append_entries(admins: Any, entries: Iterable[dict[str, Any]]) -> Any:
    """Return a copy of the admin's entries, such as tolerations, followed by the new entries that are not among them.

    :param admins: the admin's value: a list, a dict of entries (since KubeSpawner 7) or None.
    :param entries: the new entries.
    """
    merged = copy_nested(admins) if admins else []
    known = list(merged.values()) if isinstance(merged, dict) else merged
    new = [entry for entry in entries if entry not in known]
    if not isinstance(merged, dict):
        return [*merged, *new]
    # In a dict, each new entry needs a key. Number the keys by position, so that they are unique even if this
    # function is called again with the result.
    return merged | {f"{_KEY}-{len(merged) + index}": entry for index, entry in enumerate(new)}


def merge_required_terms(
    admins: Any,
    expressions: tuple[MatchExpression, ...],
    *,
    alternatives: tuple[tuple[MatchExpression, ...], ...] = (),
) -> Any:
    """Return the admin's required node selector terms with additional expressions in each term.

    If the admin has set no terms, the expressions form new terms.

    :param admins: the admin's value: a list, a dict of terms (since KubeSpawner 7) or None.
    :param expressions: expressions that a node must match; they are added to every term.
    :param alternatives: sets of expressions; a node must match all expressions of at least one set. For each set, the
        result has a copy of every term, with the set's expressions added.
    """
    terms = copy_nested(admins) if admins else []
    added = [[_format_expression(each) for each in (*expressions, *more)] for more in alternatives or ((),)]
    if not any(added):
        return terms
    if isinstance(terms, dict):
        return {
            key if index == 0 else f"{key}-{_KEY}-{index}": _narrow_term(term, each)
            for key, term in terms.items()
            for index, each in enumerate(added)
        }
    narrowed = [_narrow_term(term, each) for term in terms for each in added]
    return narrowed or [{"matchExpressions": each} for each in added]


def build_preferences(avoided: tuple[MatchExpression, ...]) -> list[dict[str, Any]]:
    """Return preferred node selector terms, with which a pod avoids some nodes, such as GPU nodes, if possible.

    :param avoided: expressions that match all other nodes, such as a ``NotIn`` for a label of GPU nodes.
    """
    if not avoided:
        return []
    expressions = [_format_expression(each) for each in avoided]
    return [{"weight": _PREFERENCE_WEIGHT, "preference": {"matchExpressions": expressions}}]


def format_tolerations(tolerations: Iterable[Toleration]) -> list[dict[str, str]]:
    """Return tolerations as JSON for the API server, without empty fields.

    :param tolerations: the pod's tolerations.
    """
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


def parse_admin_tolerations(trait: Any) -> tuple[Toleration, ...]:
    """Return the admin's tolerations as :class:`Toleration` objects.

    :param trait: value of KubeSpawner's ``tolerations``: a list of tolerations, or a dict with tolerations as values.
    """
    entries = trait.values() if isinstance(trait, dict) else trait or []
    return tuple(
        Toleration(
            key=entry.get("key") or "",
            operator=entry.get("operator") or "Equal",
            value=entry.get("value") or "",
            effect=entry.get("effect") or "",
        )
        for entry in entries
        if isinstance(entry, dict)
    )


def _narrow_term(term: Any, added: list[dict[str, Any]]) -> Any:
    """Return a node selector term with additional expressions, which reduce the nodes that match.

    An empty term matches no node. Additional expressions would make it match some nodes, so an empty term stays empty.
    """
    if not isinstance(term, dict):
        # An admin's Python configuration may contain V1NodeSelectorTerm objects; convert each to a dict.
        term = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    expressions_key = "match_expressions" if "match_expressions" in term else "matchExpressions"
    own = list(term.get(expressions_key) or [])
    fields = term.get("matchFields") or term.get("match_fields")
    if not own and not fields:
        return term
    return {**term, expressions_key: [*own, *(each for each in added if each not in own)]}


def _format_expression(expression: MatchExpression) -> dict[str, Any]:
    values = {"values": list(expression.values)} if expression.values else {}
    return {"key": expression.key, "operator": expression.operator, **values}
