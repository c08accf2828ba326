"""Match node selectors and node affinity against nodes, and label selectors and pod affinity terms against pods.

Some functions check nodes of the cluster, others check nodes that an autoscaler may add. Of a node to be added, only
the possible labels are known.

The rules for nodes are those of Kubernetes' nodeaffinity.go (component-helpers) and labels/selector.go (apimachinery).
The rules for pods are those of kube-scheduler's interpodaffinity and podtopologyspread plugins and framework/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.cluster.model import (
    LabelSelector,
    Node,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodConstraints,
    PossibleLabels,
    SelectorRequirement,
)

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
_HOSTNAME = "kubernetes.io/hostname"
"""Label that kubelet sets on its node; no two nodes have the same value."""
_NAME_FIELD = "metadata.name"
"""The only node field that ``matchFields`` supports."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64 = range(-(2**63), 2**63)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
"""Pattern of a valid label value. A requirement with an invalid value is malformed."""


def matches_any_term(node: Node, terms: Iterable[NodeSelectorTerm]) -> bool:
    """Return whether a node matches at least one of the terms; without terms, no node matches."""
    return any(matches_term(node, term) for term in terms)


def matches_term(node: Node, term: NodeSelectorTerm) -> bool:
    """Return whether a node meets all requirements of a term; a term with a malformed requirement matches no node."""
    if not term.expressions and not term.fields:
        return False
    if not all(map(is_valid_requirement, term.expressions)) or not all(map(_is_valid_field_requirement, term.fields)):
        return False
    return all(meets_requirement(node.labels, each) for each in term.expressions) and all(
        (node.name == each.values[0]) == (each.operator == IN) if each.key == _NAME_FIELD else each.operator == NOT_IN
        for each in term.fields
    )


def meets_requirement(labels: Mapping[str, str], requirement: SelectorRequirement) -> bool:
    """Return whether a node's or pod's labels meet a well-formed requirement; a missing label meets ``NotIn``."""
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
    """Return whether a requirement is well-formed.

    The operator must be known, and the values must have the number and form that the operator needs.
    """
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
    found = None if value is None else _parse_int64(value)
    bound = _parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if found is None or bound is None:
        return False
    return found > bound if requirement.operator == GT else requirement.operator == LT and found < bound


def _parse_int64(text: str) -> int | None:
    """Return what Go's ``ParseInt(text, 10, 64)`` returns, or None if it fails."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""Label of each namespace; its value is the namespace's name. The API server sets the label; users cannot change it."""


def selects_labels(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects a pod with these labels."""
    return selector is not None and all(meets_requirement(labels, each) for each in selector)


def covers_namespace(term: PodAffinityTerm, namespace: str) -> bool | None:
    """Return whether a pod affinity term applies to pods in a namespace, or None if that depends on unknown labels.

    gpuspawner does not read namespaces. The only label of a namespace that it knows is ``kubernetes.io/metadata.name``.
    """
    if namespace in term.namespaces:
        return True
    return selects_namespace(term.namespace_selector, namespace)


def selects_namespace(selector: LabelSelector, namespace: str) -> bool | None:
    """Return whether a label selector selects a namespace, or None if that depends on labels unknown to gpuspawner."""
    if selector is None:
        return False
    by_name = [each for each in selector if each.key == _NAMESPACE_NAME_LABEL]
    if not all(meets_requirement({_NAMESPACE_NAME_LABEL: namespace}, each) for each in by_name):
        return False
    return True if len(by_name) == len(selector) else None


def selects_pod(term: PodAffinityTerm, namespace: str, *, labels: Mapping[str, str]) -> bool | None:
    """Return whether a pod affinity term selects a pod, or None if that depends on unknown labels of its namespace."""
    return covers_namespace(term, namespace) if selects_labels(term.selector, labels) else False


def may_cover_namespace(term: PodAffinityTerm, namespace: str) -> bool | None:
    """Return whether a pending pod's affinity term applies to pods in a namespace, or None if that is unknown.

    The result is that of :func:`covers_namespace`, except that None replaces False if the term's namespace selector
    would also select a namespace without labels. kube-scheduler 1.36 applies such a term to all namespaces
    (``mergeAffinityTermNamespacesIfNotEmpty``), earlier versions only to the selected ones.
    """
    found = covers_namespace(term, namespace)
    return None if found is False and selects_labels(term.namespace_selector, {}) else found


def may_select_pod(term: PodAffinityTerm, namespace: str, *, labels: Mapping[str, str]) -> bool | None:
    """Return whether a pending pod's affinity term selects another pod, or None if that is unknown.

    Like :func:`selects_pod`, but with :func:`may_cover_namespace` as the check of the namespace.
    """
    return may_cover_namespace(term, namespace) if selects_labels(term.selector, labels) else False


def merge_label_keys(
    selector: LabelSelector, keys: tuple[str, ...], *, labels: Mapping[str, str], same: bool
) -> LabelSelector:
    """Return a selector with the requirements that ``matchLabelKeys`` or ``mismatchLabelKeys`` adds to the selector.

    The API server adds the same requirements when it creates a pod (strategy.go, ``applyLabelKeysToLabelSelector``).

    :param selector: label selector of a pod affinity term or of a topology spread constraint. For None, the
        result is None.
    :param labels: labels of the pod with this term or constraint. A key that the pod's labels lack adds no requirement.
    :param same: True for ``matchLabelKeys``, False for ``mismatchLabelKeys``.
    """
    if selector is None:
        return None
    operator = IN if same else NOT_IN
    own = tuple(SelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels)
    return (*selector, *own)


_MAX_COMBINATIONS = 64
"""Maximum number of combinations of a pod's node affinity terms with those of its volumes. Further combinations are
dropped, as if no node could match them."""


def matches_node_affinity(node: Node, constraints: PodConstraints) -> bool:
    """Return whether an existing node matches a pod's node selector and required node affinity.

    :param constraints: the pod's constraints; ``volume_terms`` are not checked.
    """
    labels = node.labels
    for key, value in constraints.node_selector.items():
        if labels.get(key) != value:
            return False
    return constraints.node_terms is None or matches_any_term(node, constraints.node_terms)


def limit_to_keys(constraints: PodConstraints, keys: Iterable[str]) -> PodConstraints:
    """Return a pod's node selector and node affinity, reduced to the requirements on the labels in ``keys``.

    If a term of the node affinity has no requirement on these labels, the result has no node affinity: a node needs to
    match only one term, and this term allows all values of these labels.
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


def names_existing_nodes(constraints: PodConstraints, nodes: Iterable[Node]) -> bool:
    """Return whether a pod can run only on nodes that exist now, because its constraints name these nodes.

    The pod's own node selector or affinity may name nodes, or a volume may, such as one on a node's local disk. No new
    node has the name or the hostname of an existing node.
    """
    nodes = tuple(nodes)
    known: dict[str, set[str | None]] = {
        _HOSTNAME: {node.labels.get(_HOSTNAME) for node in nodes},
        _NAME_FIELD: {node.name for node in nodes},
    }
    if constraints.node_selector.get(_HOSTNAME) in known[_HOSTNAME] - {None}:
        return True
    own = () if constraints.node_terms is None else (constraints.node_terms,)
    return any(all(_names_known_node(term, known) for term in terms) for terms in (*own, *constraints.volume_terms))


def _names_known_node(term: NodeSelectorTerm, known: Mapping[str, set[str | None]]) -> bool:
    return any(
        requirement.key in known
        and requirement.operator == IN
        and known[requirement.key].issuperset(requirement.values)
        for requirement in (*term.expressions, *term.fields)
    )


def guarantees_node_affinity(labels: PossibleLabels, constraints: PodConstraints) -> bool:
    """Return whether an autoscaler can add a node that matches the node selector and affinity of a pod and its volumes.

    :param labels: label → values from which the autoscaler can choose. A requirement on another label is not met.
    :param constraints: the constraints of the pod and its volumes.
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
