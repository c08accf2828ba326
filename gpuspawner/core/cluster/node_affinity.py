"""Which nodes a pod asks for by its node selector and required node affinity, of nodes that are there or may be."""

from __future__ import annotations

from collections.abc import Iterable

from gpuspawner.core.cluster.model import Node, NodeSelectorTerm, PodConstraints, PossibleLabels, SelectorRequirement
from gpuspawner.core.cluster.selectors import (
    DOES_NOT_EXIST,
    IN,
    NOT_IN,
    is_valid_requirement,
    matches_any_term,
    meets_requirement,
)

_MAX_COMBINATIONS = 64
"""Combinations of terms that are looked at; what only a later one would allow is not sure."""


def matches_node_affinity(node: Node, constraints: PodConstraints) -> bool:
    """Tell whether a node is one of those that a pod asks for."""
    labels = node.labels
    for key, value in constraints.node_selector.items():
        if labels.get(key) != value:
            return False
    return constraints.node_terms is None or matches_any_term(node, constraints.node_terms)


def may_match_node_affinity(labels: PossibleLabels, constraints: PodConstraints) -> bool:
    """Tell whether a node with one of these values of each label could be one of those that a pod asks for."""
    if any(key in labels and value not in labels[key] for key, value in constraints.node_selector.items()):
        return False
    return constraints.node_terms is None or any(_may_match_term(labels, term) for term in constraints.node_terms)


def guarantees_node_affinity(labels: PossibleLabels, constraints: PodConstraints) -> bool:
    """Tell whether a node is one that a pod and its volumes ask for, if whoever makes it picks the labels' values so.

    Nothing is assumed of labels that are not known: a demand on one of those is not met.
    """
    selector = [
        SelectorRequirement(key=key, operator=IN, values=(value,)) for key, value in constraints.node_selector.items()
    ]
    picked = _narrow_labels(labels, selector)
    choices = [] if picked is None else [picked]
    for terms in (*(() if constraints.node_terms is None else (constraints.node_terms,)), *constraints.volume_terms):
        usable = [term for term in terms if term.expressions and not term.fields]
        found = (_narrow_labels(each, term.expressions) for each in choices for term in usable)
        choices = [each for each in found if each is not None][:_MAX_COMBINATIONS]
    return bool(choices)


def filter_values(values: tuple[str, ...], requirement: SelectorRequirement) -> tuple[str, ...]:
    """Return the values of a label that fulfil a requirement; by sets, as nothing limits how many there are."""
    if requirement.operator in (IN, NOT_IN):
        named = frozenset(values).intersection(requirement.values)
        return tuple(value for value in values if (value in named) is (requirement.operator == IN))
    return tuple(value for value in values if meets_requirement({requirement.key: value}, requirement))


def _narrow_labels(labels: PossibleLabels, requirements: Iterable[SelectorRequirement]) -> PossibleLabels | None:
    """Return labels with the values alone that fulfil all requirements, None where a label is left with none."""
    picked = dict(labels)
    for each in requirements:
        values = picked.get(each.key)
        if values is None or not is_valid_requirement(each):
            return None
        if not values:
            if each.operator not in (NOT_IN, DOES_NOT_EXIST):
                return None
            continue
        picked[each.key] = filter_values(values, each)
        if not picked[each.key]:
            return None
    return picked


def _may_match_term(labels: PossibleLabels, term: NodeSelectorTerm) -> bool:
    return bool(term.expressions or term.fields) and all(
        _may_meet_requirement(labels, each) for each in term.expressions
    )


def _may_meet_requirement(labels: PossibleLabels, requirement: SelectorRequirement) -> bool:
    values = labels.get(requirement.key)
    if values is None:
        return True
    if not values:
        return requirement.operator in (NOT_IN, DOES_NOT_EXIST)
    return bool(filter_values(values, requirement))
