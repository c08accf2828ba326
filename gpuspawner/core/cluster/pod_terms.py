"""What a pod says of other pods: required (anti-)affinity terms and spread constraints, and the pods they select.

Facts are from kube-scheduler's interpodaffinity and podtopologyspread plugins and framework/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.cluster.model import LabelSelector, PodAffinityTerm, SelectorRequirement
from gpuspawner.core.cluster.node_terms import IN, NOT_IN, meets_requirement

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
