"""Match a pod's node selector and required node affinity against existing nodes and future nodes' possible labels."""

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
"""gpuspawner combines the node affinity terms of a pod with those of its volumes. It drops combinations beyond this
number, as if no node could match them."""


def matches_node_affinity(node: Node, constraints: PodConstraints) -> bool:
    """Return whether an existing node matches a pod's node selector and required node affinity.

    :param node: an existing node.
    :param constraints: the pod's constraints; ``volume_terms`` are not checked.
    """
    labels = node.labels
    for key, value in constraints.node_selector.items():
        if labels.get(key) != value:
            return False
    return constraints.node_terms is None or matches_any_term(node, constraints.node_terms)


def limit_to_keys(constraints: PodConstraints, keys: Iterable[str]) -> PodConstraints:
    """Return a pod's node selector and node affinity, reduced to the requirements on the labels in ``keys``.

    If a term of the node affinity has no requirement on these labels, the result has no node affinity: terms are
    alternatives, and this term accepts all values of these labels.

    :param keys: names of labels.
    """
    known = frozenset(keys)
    selector = {key: value for key, value in constraints.node_selector.items() if key in known}
    terms = [
        NodeSelectorTerm(expressions=tuple(each for each in term.expressions if each.key in known))
        for term in constraints.node_terms or ()
    ]
    is_limited = bool(terms) and all(term.expressions for term in terms)
    return PodConstraints(node_selector=selector, node_terms=tuple(terms) if is_limited else None)


def may_match_node_affinity(labels: PossibleLabels, constraints: PodConstraints) -> bool:
    """Return whether a future node with these possible labels could match a pod's node selector and node affinity.

    A label that ``labels`` lacks may have any value.
    """
    if any(key in labels and value not in labels[key] for key, value in constraints.node_selector.items()):
        return False
    return constraints.node_terms is None or any(_may_match_term(labels, term) for term in constraints.node_terms)


def guarantees_node_affinity(labels: PossibleLabels, constraints: PodConstraints) -> bool:
    """Return whether an autoscaler can choose labels that match a pod's node selector and all required node affinity.

    The node affinity of the pod's volumes counts as well. ``labels`` holds the values that the autoscaler can choose
    for each label. A requirement on a label that ``labels`` lacks counts as not met.
    """
    selector = [
        SelectorRequirement(key=key, operator=IN, values=(value,)) for key, value in constraints.node_selector.items()
    ]
    narrowed = _narrow_labels(labels, selector)
    choices = [] if narrowed is None else [narrowed]
    for terms in (*(() if constraints.node_terms is None else (constraints.node_terms,)), *constraints.volume_terms):
        usable = [term for term in terms if term.expressions and not term.fields]
        found = (_narrow_labels(each, term.expressions) for each in choices for term in usable)
        choices = [each for each in found if each is not None][:_MAX_COMBINATIONS]
    return bool(choices)


def filter_values(values: tuple[str, ...], requirement: SelectorRequirement) -> tuple[str, ...]:
    """Return those values of a label that meet a requirement."""
    if requirement.operator in (IN, NOT_IN):  # A set makes In and NotIn fast for long lists of values.
        common = frozenset(values).intersection(requirement.values)
        return tuple(value for value in values if (value in common) is (requirement.operator == IN))
    return tuple(value for value in values if meets_requirement({requirement.key: value}, requirement))


def _narrow_labels(labels: PossibleLabels, requirements: Iterable[SelectorRequirement]) -> PossibleLabels | None:
    narrowed = dict(labels)
    for each in requirements:
        values = narrowed.get(each.key)
        if values is None or not is_valid_requirement(each):
            return None
        if not values:
            if each.operator not in (NOT_IN, DOES_NOT_EXIST):
                return None
            continue
        narrowed[each.key] = filter_values(values, each)
        if not narrowed[each.key]:
            return None
    return narrowed


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
