"""Which nodes a PersistentVolume can be used on, from JSON as the API sends it. Total over any JSON.

Facts are from kube-scheduler's volumebinding and volumezone plugins.
"""

from __future__ import annotations

from gpuspawner.core.cluster.decode_terms import node_terms
from gpuspawner.core.cluster.model import NodeTerm, Requirement
from gpuspawner.core.cluster.node_terms import DOES_NOT_EXIST, IN
from gpuspawner.core.rawjson import mapping, text_map

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
"""Old labels of volumes and nodes → what they are called now."""
_BETWEEN_ZONES = "__"
"""Between the zones of a volume that exists in several."""


def volume_terms(raw: object) -> tuple[tuple[NodeTerm, ...], ...]:
    """Return what a v1 PersistentVolume says of nodes, as :attr:`Demands.volume_terms`; empty when it says nothing.

    Its node affinity, and its zone and region labels. A node without any of these labels passes the latter.
    """
    whole = mapping(raw)
    affinity = node_terms(mapping(mapping(whole.get("spec")).get("nodeAffinity")).get("required"))
    labels = text_map(mapping(whole.get("metadata")).get("labels"))
    zones = {key: _zones(labels[key]) for key in (*_BETA, _ZONE, _REGION) if key in labels}
    # A label with a part that is empty is no zone to kube-scheduler either (``LabelZonesToSet``).
    by_zone = (_zone_terms(key, found) for key, found in zones.items() if all(found))
    return (*(() if affinity is None else (affinity,)), *by_zone)


def _zones(value: str) -> tuple[str, ...]:
    return tuple(zone.strip() for zone in value.split(_BETWEEN_ZONES))


def _zone_terms(key: str, zones: tuple[str, ...]) -> tuple[NodeTerm, ...]:
    nowhere = tuple(Requirement(key=each, operator=DOES_NOT_EXIST) for each in (*_BETA, _ZONE, _REGION))
    found = [NodeTerm(expressions=nowhere), NodeTerm(expressions=(Requirement(key=key, operator=IN, values=zones),))]
    if key in _BETA:
        renamed = Requirement(key=_BETA[key], operator=IN, values=zones)
        found.append(NodeTerm(expressions=(Requirement(key=key, operator=DOES_NOT_EXIST), renamed)))
    return tuple(found)
