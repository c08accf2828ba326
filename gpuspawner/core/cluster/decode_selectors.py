"""Decode selectors, affinity terms and spread constraints of pods, and the node affinity of PersistentVolumes.

The input is the API's JSON. A malformed label selector raises :class:`InvalidSelectorError`; any other malformed value
counts as empty. Volumes are decoded as in kube-scheduler's volumebinding and volumezone plugins.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.cluster.model import (
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    SelectorRequirement,
    SpreadConstraint,
)
from gpuspawner.core.cluster.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, is_valid_requirement, merge_label_keys
from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_text, as_text_map, as_texts

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_POD_OPERATORS = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})


class InvalidSelectorError(ValueError):
    """A label selector is malformed: Kubernetes would reject it, so the pods that it selects are unknown."""


def decode_node_terms(raw: object) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of a v1 NodeSelector, or None if there is no selector."""
    if not isinstance(raw, dict):
        return None
    return tuple(
        NodeSelectorTerm(
            expressions=_decode_requirements(term.get("matchExpressions")),
            fields=_decode_requirements(term.get("matchFields")),
        )
        for term in as_dicts(raw.get("nodeSelectorTerms"))
    )


def decode_node_affinity(spec: Mapping[str, object]) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of a pod's required node affinity, or None if it has none."""
    return decode_node_terms(as_dict(as_dict(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED))


def decode_pod_terms(
    raw: object, *, namespace: str, labels: Mapping[str, str], created: bool
) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms of a v1 PodAffinity or PodAntiAffinity.

    :param namespace: namespace of the pod with these terms. A term with neither ``namespaces`` nor
        ``namespaceSelector`` applies to this namespace.
    :param created: True if the pod exists in the API server, which has then already merged ``matchLabelKeys`` and
        ``mismatchLabelKeys`` into the selectors. If False, this function merges them.
    :raises InvalidSelectorError: for a malformed label selector.
    """
    return tuple(
        _decode_pod_term(term, namespace=namespace, labels={} if created else labels)
        for term in as_dicts(as_dict(raw).get(_REQUIRED))
    )


def decode_spread_constraints(raw: object, *, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    """Return a pod's topology spread constraints that have ``whenUnsatisfiable: DoNotSchedule``.

    :raises InvalidSelectorError: for a malformed label selector.
    """
    return tuple(
        SpreadConstraint(
            max_skew=as_int(constraint.get("maxSkew")) or 1,
            topology_key=as_text(constraint.get("topologyKey")),
            selector=merge_label_keys(
                decode_selector(constraint.get("labelSelector")),
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
    selector = decode_selector(term.get("labelSelector"))
    selector = merge_label_keys(selector, as_texts(term.get("matchLabelKeys")), labels=labels, same=True)
    selector = merge_label_keys(selector, as_texts(term.get("mismatchLabelKeys")), labels=labels, same=False)
    namespaces = as_texts(term.get("namespaces"))
    by_labels = decode_selector(term.get("namespaceSelector"))
    return PodAffinityTerm(
        topology_key=as_text(term.get("topologyKey")),
        selector=selector,
        namespaces=frozenset(namespaces if namespaces or by_labels is not None else (namespace,)),
        namespace_selector=by_labels,
    )


def decode_selector(raw: object) -> LabelSelector:
    """Return a decoded LabelSelector; None selects nothing.

    :param raw: meta/v1 LabelSelector; ``{}`` selects everything. None returns None.
    :raises InvalidSelectorError: for a malformed label selector.
    """
    if raw is None:
        return None
    selector = as_dict(raw)
    labels, listed = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if selector != raw or as_text_map(labels) != labels or not isinstance(listed, list):
        raise InvalidSelectorError("a label selector has a value of the wrong type")
    equal = (SelectorRequirement(key=key, operator=IN, values=(value,)) for key, value in as_text_map(labels).items())
    requirements = (*equal, *_decode_requirements(listed))
    if not all(each.operator in _POD_OPERATORS and is_valid_requirement(each) for each in requirements):
        raise InvalidSelectorError("a label selector has a requirement that Kubernetes would not accept")
    return requirements


def _decode_requirements(raw: object) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(
            key=as_text(each.get("key")), operator=as_text(each.get("operator")), values=as_texts(each.get("values"))
        )
        for each in as_dicts(raw)
    )


_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
_ZONE_SEPARATOR = "__"
"""Separator of the zones in the zone label of a regional volume (``us-east1-b__us-east1-c``)."""


def decode_volume_terms(raw: object) -> tuple[tuple[NodeSelectorTerm, ...], ...]:
    """Return a PersistentVolume's constraints on nodes as sets of node selector terms.

    A node must match one term of each set (:attr:`.PodConstraints.volume_terms`). The
    volume's node affinity is one set. Each zone or region label of the volume is a further set, which also matches
    nodes that have no zone and no region label.

    :return: empty if the volume may be used on all nodes.
    """
    whole = as_dict(raw)
    affinity = decode_node_terms(as_dict(as_dict(whole.get("spec")).get("nodeAffinity")).get("required"))
    labels = as_text_map(as_dict(whole.get("metadata")).get("labels"))
    zones = {
        key: tuple(zone.strip() for zone in labels[key].split(_ZONE_SEPARATOR))
        for key in (*_BETA_LABELS, _ZONE, _REGION)
        if key in labels
    }
    # Like kube-scheduler, ignore a zone label with an empty part, such as ``us-east1-b__`` (``LabelZonesToSet``).
    by_zone = (_build_zone_terms(key, found) for key, found in zones.items() if all(found))
    return (*(() if affinity is None else (affinity,)), *by_zone)


def _build_zone_terms(key: str, zones: tuple[str, ...]) -> tuple[NodeSelectorTerm, ...]:
    unlabeled = tuple(
        SelectorRequirement(key=each, operator=DOES_NOT_EXIST) for each in (*_BETA_LABELS, _ZONE, _REGION)
    )
    terms = [
        NodeSelectorTerm(expressions=unlabeled),
        NodeSelectorTerm(expressions=(SelectorRequirement(key=key, operator=IN, values=zones),)),
    ]
    if key in _BETA_LABELS:
        current = SelectorRequirement(key=_BETA_LABELS[key], operator=IN, values=zones)
        terms.append(NodeSelectorTerm(expressions=(SelectorRequirement(key=key, operator=DOES_NOT_EXIST), current)))
    return tuple(terms)
