"""Which nodes a PersistentVolume can be used on, from JSON as the API sends it. Total over any JSON.

Facts are from kube-scheduler's volumebinding and volumezone plugins.
"""

from __future__ import annotations

from gpuspawner.core.cluster.decode_terms import decode_node_terms
from gpuspawner.core.cluster.model import NodeSelectorTerm, SelectorRequirement
from gpuspawner.core.cluster.node_terms import DOES_NOT_EXIST, IN
from gpuspawner.core.rawjson import as_dict, as_text_map

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
"""Old labels of volumes and nodes → what they are called now."""
_ZONE_SEPARATOR = "__"
"""Between the zones of a volume that exists in several."""


def decode_volume_terms(raw: object) -> tuple[tuple[NodeSelectorTerm, ...], ...]:
    """Return what a v1 PersistentVolume says of nodes, as :attr:`Demands.volume_terms`; empty when it says nothing.

    Its node affinity, and its zone and region labels. A node without any of these labels passes the latter.
    """
    whole = as_dict(raw)
    affinity = decode_node_terms(as_dict(as_dict(whole.get("spec")).get("nodeAffinity")).get("required"))
    labels = as_text_map(as_dict(whole.get("metadata")).get("labels"))
    zones = {key: _split_zones(labels[key]) for key in (*_BETA_LABELS, _ZONE, _REGION) if key in labels}
    # A label with a part that is empty is no zone to kube-scheduler either (``LabelZonesToSet``).
    by_zone = (_build_zone_terms(key, found) for key, found in zones.items() if all(found))
    return (*(() if affinity is None else (affinity,)), *by_zone)


def _split_zones(value: str) -> tuple[str, ...]:
    return tuple(zone.strip() for zone in value.split(_ZONE_SEPARATOR))


def _build_zone_terms(key: str, zones: tuple[str, ...]) -> tuple[NodeSelectorTerm, ...]:
    nowhere = tuple(SelectorRequirement(key=each, operator=DOES_NOT_EXIST) for each in (*_BETA_LABELS, _ZONE, _REGION))
    found = [
        NodeSelectorTerm(expressions=nowhere),
        NodeSelectorTerm(expressions=(SelectorRequirement(key=key, operator=IN, values=zones),)),
    ]
    if key in _BETA_LABELS:
        renamed = SelectorRequirement(key=_BETA_LABELS[key], operator=IN, values=zones)
        found.append(NodeSelectorTerm(expressions=(SelectorRequirement(key=key, operator=DOES_NOT_EXIST), renamed)))
    return tuple(found)
