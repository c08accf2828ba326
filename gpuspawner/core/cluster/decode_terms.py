"""Selectors and terms of pods and volumes, from JSON as the API sends it. Total over any JSON, but for one error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuspawner.core.cluster.model import (
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    SelectorRequirement,
    SpreadConstraint,
)
from gpuspawner.core.cluster.node_terms import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, is_valid_requirement
from gpuspawner.core.cluster.pod_terms import merge_label_keys
from gpuspawner.core.rawjson import as_dict, as_dicts, as_int, as_text, as_text_map, as_texts

_POD_OPERATORS = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})


class InvalidSelectorError(ValueError):
    """A selector of pods is not one that Kubernetes accepts, so nothing can be said of whom it selects."""


def decode_node_terms(raw: object) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of a v1 NodeSelector, None where there is no selector at all."""
    if not isinstance(raw, dict):
        return None
    return tuple(
        NodeSelectorTerm(
            expressions=_decode_requirements(term.get("matchExpressions")),
            fields=_decode_requirements(term.get("matchFields")),
        )
        for term in as_dicts(raw.get("nodeSelectorTerms"))
    )


def decode_pod_terms(
    raw: object, *, namespace: str, labels: Mapping[str, str], created: bool
) -> tuple[PodAffinityTerm, ...]:
    """Return required terms of a v1 PodAffinity or PodAntiAffinity.

    :param namespace: of the pod they belong to; terms that name none mean that one.
    :param labels: of that pod.
    :param created: the API server has merged the terms' label keys into their selectors already.
    :raises UnreadableSelectorError: a selector cannot be read.
    """
    return tuple(
        _decode_pod_term(term, namespace=namespace, labels={} if created else labels)
        for term in as_dicts(as_dict(raw).get("requiredDuringSchedulingIgnoredDuringExecution"))
    )


def decode_spread_constraints(raw: object, *, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """Return the topology spread constraints that must hold.

    :param labels: of the pod they belong to.
    :raises UnreadableSelectorError: a selector cannot be read.
    """
    return tuple(
        SpreadConstraint(
            max_skew=as_int(constraint.get("maxSkew")) or 1,
            topology_key=as_text(constraint.get("topologyKey")),
            selector=merge_label_keys(
                _decode_selector(constraint.get("labelSelector")),
                as_texts(constraint.get("matchLabelKeys")),
                labels=labels,
                same=True,
            ),
            min_domains=as_int(constraint.get("minDomains")) or 1,
            honor_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
            honor_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )
        for constraint in as_dicts(raw)
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    )


def _decode_pod_term(term: Mapping[str, object], *, namespace: str, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _decode_selector(term.get("labelSelector"))
    selector = merge_label_keys(selector, as_texts(term.get("matchLabelKeys")), labels=labels, same=True)
    selector = merge_label_keys(selector, as_texts(term.get("mismatchLabelKeys")), labels=labels, same=False)
    namespaces = as_texts(term.get("namespaces"))
    by_labels = _decode_selector(term.get("namespaceSelector"))
    return PodAffinityTerm(
        topology_key=as_text(term.get("topologyKey")),
        selector=selector,
        namespaces=frozenset(namespaces if namespaces or by_labels is not None else (namespace,)),
        namespace_selector=by_labels,
    )


def _decode_selector(raw: object) -> LabelSelector:
    """Return a v1 LabelSelector; there is none (it selects nothing) or it has no requirements (it selects all)."""
    if not isinstance(raw, dict):
        return None
    labels = as_text_map(raw.get("matchLabels"))
    expressions = _decode_requirements(raw.get("matchExpressions"))
    requirements = (*(SelectorRequirement(key=key, operator=IN, values=(labels[key],)) for key in labels), *expressions)
    if not all(each.operator in _POD_OPERATORS and is_valid_requirement(each) for each in requirements):
        raise InvalidSelectorError("a label selector has a requirement that Kubernetes would not accept")
    return requirements


def _decode_requirements(raw: object) -> tuple[SelectorRequirement, ...]:
    return tuple(_iter_requirements(as_dicts(raw)))


def _iter_requirements(found: Iterable[Mapping[str, object]]) -> Iterable[SelectorRequirement]:
    for each in found:
        yield SelectorRequirement(
            key=as_text(each.get("key")), operator=as_text(each.get("operator")), values=as_texts(each.get("values"))
        )
