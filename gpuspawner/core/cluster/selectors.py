"""Node selector terms: what a pod's required node affinity, or a volume's, says of nodes (core/v1 NodeSelectorTerm).

Facts are from Kubernetes' nodeaffinity.go (component-helpers) and labels/selector.go (apimachinery).

What a pod says of other pods: required (anti-)affinity terms and spread constraints, and the pods they select.

Facts are from kube-scheduler's interpodaffinity and podtopologyspread plugins and framework/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpuspawner.core.cluster.model import LabelSelector, Node, NodeSelectorTerm, PodAffinityTerm, SelectorRequirement

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


_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that the API server sets on each namespace to its name, and lets nobody change."""


def selects_labels(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector selects a pod with these labels."""
    return selector is not None and all(meets_requirement(labels, each) for each in selector)


def covers_namespace(term: PodAffinityTerm, namespace: str) -> bool | None:
    """Tell whether a term looks for pods in a namespace; None where that takes labels of the namespace.

    One label of every namespace is known: its name.
    """
    if namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return False
    unknown = False
    for requirement in term.namespace_selector:
        if requirement.key != _NAMESPACE_NAME_LABEL:
            unknown = True
        elif not meets_requirement({_NAMESPACE_NAME_LABEL: namespace}, requirement):
            return False
    return None if unknown else True


def selects_pod(term: PodAffinityTerm, namespace: str, *, labels: Mapping[str, str]) -> bool | None:
    """Tell whether a term means a pod with these labels in this namespace; None where that cannot be told."""
    return covers_namespace(term, namespace) if selects_labels(term.selector, labels) else False


def may_cover_namespace(term: PodAffinityTerm, namespace: str) -> bool | None:
    """Tell the same as :func:`covers_namespace` of a term of a pod that waits.

    kube-scheduler 1.36 then also looks in every namespace if the selector accepts one without any labels, which earlier
    versions do not (``mergeAffinityTermNamespacesIfNotEmpty`` changes a copy of the term): so that cannot be told.
    """
    found = covers_namespace(term, namespace)
    return None if found is False and selects_labels(term.namespace_selector, {}) else found


def may_select_pod(term: PodAffinityTerm, namespace: str, *, labels: Mapping[str, str]) -> bool | None:
    """Tell the same as :func:`selects_pod` of a term of a pod that waits."""
    return may_cover_namespace(term, namespace) if selects_labels(term.selector, labels) else False


def merge_label_keys(
    selector: LabelSelector, keys: tuple[str, ...], *, labels: Mapping[str, str], same: bool
) -> LabelSelector:
    """Return a selector narrowed to pods that have the same (or another) value of these labels as the pod itself.

    ``matchLabelKeys`` and ``mismatchLabelKeys``: the API server merges them when a pod is created (strategy.go,
    ``applyLabelKeysToLabelSelector``). A label that the pod does not have says nothing.
    """
    if selector is None:
        return None
    operator = IN if same else NOT_IN
    own = tuple(SelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels)
    return (*selector, *own)
