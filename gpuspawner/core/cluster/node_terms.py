"""Node selector terms: what a pod's required node affinity, or a volume's, says of nodes (core/v1 NodeSelectorTerm).

Facts are from Kubernetes' nodeaffinity.go (component-helpers) and labels/selector.go (apimachinery).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.cluster.model import Node, NodeSelectorTerm, SelectorRequirement

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
NAME_FIELD = "metadata.name"
"""The only field of a node that a term may speak of."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64 = range(-(2**63), 2**63)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
"""A label's value. A requirement with another one is malformed, as its label can never be set."""


def matches_any_term(node: Node, terms: Iterable[NodeSelectorTerm]) -> bool:
    """Tell whether a node matches one of the terms; no terms match nothing."""
    return any(matches_term(node, term) for term in terms)


def matches_term(node: Node, term: NodeSelectorTerm) -> bool:
    """Tell whether a node fulfils all a term says; a term with a malformed requirement matches no node."""
    if not term.expressions and not term.fields:
        return False
    if not all(map(is_valid_requirement, term.expressions)) or not all(map(_is_valid_field_requirement, term.fields)):
        return False
    return all(meets_requirement(node.labels, each) for each in term.expressions) and all(
        (node.name == each.values[0]) == (each.operator == IN) if each.key == NAME_FIELD else each.operator == NOT_IN
        for each in term.fields
    )


def meets_requirement(labels: Mapping[str, str], requirement: SelectorRequirement) -> bool:
    """Tell whether labels fulfil a well-formed requirement; a label that is missing fulfils ``NotIn``."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return _compares_integers(value, requirement)


@lru_cache(maxsize=1024)
def is_valid_requirement(requirement: SelectorRequirement) -> bool:
    """Tell whether a requirement has the values its operator needs; Kubernetes calls any other an error."""
    values = requirement.values
    if not requirement.key or not all(_LABEL_VALUE.fullmatch(value) for value in values):
        return False
    match requirement.operator:
        case "In" | "NotIn":
            return bool(values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and _parse_int64(values[0]) is not None
        case _:
            return False


def _is_valid_field_requirement(requirement: SelectorRequirement) -> bool:
    return requirement.operator in (IN, NOT_IN) and len(requirement.values) == 1


def _compares_integers(value: str | None, requirement: SelectorRequirement) -> bool:
    """Tell whether a label's whole number is greater or less than the requirement's; text is neither."""
    found = None if value is None else _parse_int64(value)
    bound = _parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if found is None or bound is None:
        return False
    return found > bound if requirement.operator == GT else requirement.operator == LT and found < bound


def _parse_int64(text: str) -> int | None:
    """Return what Go's ``ParseInt(text, 10, 64)`` reads, None where it reads nothing."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
