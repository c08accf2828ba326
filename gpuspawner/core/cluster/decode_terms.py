"""Selectors and terms of pods and volumes, from JSON as the API sends it. Total over any JSON, but for one error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuspawner.core.cluster.model import NodeTerm, PodTerm, Requirement, Selector, SpreadConstraint
from gpuspawner.core.cluster.node_terms import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, is_well_formed
from gpuspawner.core.cluster.pod_terms import with_label_keys
from gpuspawner.core.rawjson import mapping, mappings, text, text_map, texts, whole

_POD_OPERATORS = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})


class UnreadableSelectorError(ValueError):
    """A selector of pods is not one that Kubernetes accepts, so nothing can be said of whom it selects."""


def node_terms(raw: object) -> tuple[NodeTerm, ...] | None:
    """Return the terms of a v1 NodeSelector, None where there is no selector at all."""
    if not isinstance(raw, dict):
        return None
    return tuple(
        NodeTerm(expressions=_requirements(term.get("matchExpressions")), fields=_requirements(term.get("matchFields")))
        for term in mappings(raw.get("nodeSelectorTerms"))
    )


def pod_terms(raw: object, *, namespace: str, labels: Mapping[str, str], created: bool) -> tuple[PodTerm, ...]:
    """Return required terms of a v1 PodAffinity or PodAntiAffinity.

    :param namespace: of the pod they belong to; terms that name none mean that one.
    :param labels: of that pod.
    :param created: the API server has merged the terms' label keys into their selectors already.
    :raises UnreadableSelectorError: a selector cannot be read.
    """
    return tuple(
        _pod_term(term, namespace=namespace, labels={} if created else labels)
        for term in mappings(mapping(raw).get("requiredDuringSchedulingIgnoredDuringExecution"))
    )


def spread_constraints(raw: object, *, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """Return the topology spread constraints that must hold.

    :param labels: of the pod they belong to.
    :raises UnreadableSelectorError: a selector cannot be read.
    """
    return tuple(
        SpreadConstraint(
            max_skew=whole(constraint.get("maxSkew")) or 1,
            topology_key=text(constraint.get("topologyKey")),
            selector=with_label_keys(
                _selector(constraint.get("labelSelector")),
                texts(constraint.get("matchLabelKeys")),
                labels=labels,
                same=True,
            ),
            min_domains=whole(constraint.get("minDomains")) or 1,
            honor_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
            honor_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )
        for constraint in mappings(raw)
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    )


def _pod_term(term: Mapping[str, object], *, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    selector = _selector(term.get("labelSelector"))
    selector = with_label_keys(selector, texts(term.get("matchLabelKeys")), labels=labels, same=True)
    selector = with_label_keys(selector, texts(term.get("mismatchLabelKeys")), labels=labels, same=False)
    namespaces = texts(term.get("namespaces"))
    by_labels = _selector(term.get("namespaceSelector"))
    return PodTerm(
        topology_key=text(term.get("topologyKey")),
        selector=selector,
        namespaces=frozenset(namespaces if namespaces or by_labels is not None else (namespace,)),
        namespace_selector=by_labels,
    )


def _selector(raw: object) -> Selector:
    """Return a v1 LabelSelector; there is none (it selects nothing) or it has no requirements (it selects all)."""
    if not isinstance(raw, dict):
        return None
    labels = text_map(raw.get("matchLabels"))
    expressions = _requirements(raw.get("matchExpressions"))
    requirements = (*(Requirement(key=key, operator=IN, values=(labels[key],)) for key in labels), *expressions)
    if not all(each.operator in _POD_OPERATORS and is_well_formed(each) for each in requirements):
        raise UnreadableSelectorError("a label selector has a requirement that Kubernetes would not accept")
    return requirements


def _requirements(raw: object) -> tuple[Requirement, ...]:
    return tuple(_each_requirement(mappings(raw)))


def _each_requirement(found: Iterable[Mapping[str, object]]) -> Iterable[Requirement]:
    for each in found:
        yield Requirement(
            key=text(each.get("key")), operator=text(each.get("operator")), values=texts(each.get("values"))
        )
