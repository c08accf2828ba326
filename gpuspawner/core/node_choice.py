"""Which nodes a pod asks for by its node selector and required node affinity, of nodes that are there or may be."""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.demands import Demands
from gpuspawner.core.inventory import Node
from gpuspawner.core.node_terms import DOES_NOT_EXIST, NOT_IN, NodeTerm, Requirement, fulfils, matches_any

Labels = Mapping[str, tuple[str, ...]]
"""Label → values that a node may have; no values: the label will not be there. Others are not known."""


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


def _may_match(labels: Labels, term: NodeTerm) -> bool:
    return bool(term.expressions or term.fields) and all(_may_fulfil(labels, each) for each in term.expressions)


def _may_fulfil(labels: Labels, requirement: Requirement) -> bool:
    values = labels.get(requirement.key)
    if values is None:
        return True
    if not values:
        return requirement.operator in (NOT_IN, DOES_NOT_EXIST)
    return any(fulfils({requirement.key: value}, requirement) for value in values)
