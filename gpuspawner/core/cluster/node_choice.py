"""Which nodes a pod asks for by its node selector and required node affinity, of nodes that are there or may be."""

from __future__ import annotations

from collections.abc import Iterable

from gpuspawner.core.cluster.model import Demands, Labels, Node, NodeTerm, Requirement
from gpuspawner.core.cluster.node_terms import DOES_NOT_EXIST, IN, NOT_IN, fulfils, is_well_formed, matches_any

_MOST_TERMS = 64
"""Combinations of terms that are looked at; what only a later one would allow is not sure."""


def admits(node: Node, demands: Demands) -> bool:
    """Tell whether a node is one of those that a pod asks for."""
    labels = node.labels
    for key, value in demands.node_selector.items():
        if labels.get(key) != value:
            return False
    return demands.node_terms is None or matches_any(node, demands.node_terms)


def may_admit(labels: Labels, demands: Demands) -> bool:
    """Tell whether a node with one of these values of each label could be one of those that a pod asks for."""
    if any(key in labels and value not in labels[key] for key, value in demands.node_selector.items()):
        return False
    return demands.node_terms is None or any(_may_match(labels, term) for term in demands.node_terms)


def will_admit(labels: Labels, demands: Demands) -> bool:
    """Tell whether a node is one that a pod and its volumes ask for, if whoever makes it picks the labels' values so.

    Nothing is assumed of labels that are not known: a demand on one of those is not met.
    """
    selector = [Requirement(key=key, operator=IN, values=(value,)) for key, value in demands.node_selector.items()]
    picked = _picked(labels, selector)
    choices = [] if picked is None else [picked]
    for terms in (*(() if demands.node_terms is None else (demands.node_terms,)), *demands.volume_terms):
        usable = [term for term in terms if term.expressions and not term.fields]
        found = (_picked(each, term.expressions) for each in choices for term in usable)
        choices = [each for each in found if each is not None][:_MOST_TERMS]
    return bool(choices)


def kept(values: tuple[str, ...], requirement: Requirement) -> tuple[str, ...]:
    """Return the values of a label that fulfil a requirement; by sets, as nothing limits how many there are."""
    if requirement.operator in (IN, NOT_IN):
        named = frozenset(values).intersection(requirement.values)
        return tuple(value for value in values if (value in named) is (requirement.operator == IN))
    return tuple(value for value in values if fulfils({requirement.key: value}, requirement))


def _picked(labels: Labels, requirements: Iterable[Requirement]) -> Labels | None:
    """Return labels with the values alone that fulfil all requirements, None where a label is left with none."""
    picked = dict(labels)
    for each in requirements:
        values = picked.get(each.key)
        if values is None or not is_well_formed(each):
            return None
        if not values:
            if each.operator not in (NOT_IN, DOES_NOT_EXIST):
                return None
            continue
        picked[each.key] = kept(values, each)
        if not picked[each.key]:
            return None
    return picked


def _may_match(labels: Labels, term: NodeTerm) -> bool:
    return bool(term.expressions or term.fields) and all(_may_fulfil(labels, each) for each in term.expressions)


def _may_fulfil(labels: Labels, requirement: Requirement) -> bool:
    values = labels.get(requirement.key)
    if values is None:
        return True
    if not values:
        return requirement.operator in (NOT_IN, DOES_NOT_EXIST)
    return bool(kept(values, requirement))
