"""Filters that look at a node alone: what stands there stays, however many pods end.

As kube-scheduler's plugins NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, VolumeBinding and VolumeZone
decide, and, of PodTopologySpread and InterPodAffinity, that a node must have the label that says where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.inventory import Node, Pod
from gpuspawner.core.node_table import Layout
from gpuspawner.core.node_terms import matches_any
from gpuspawner.core.obstacles import Obstacle, Reason
from gpuspawner.core.tolerations import tolerates_cordon, untolerated


def node_obstacles(pod: Pod, node: Node) -> tuple[Obstacle, ...]:
    """Return what keeps a pod off a node whatever runs there; the same for all nodes of a pool of :func:`layout`."""
    return tuple(_node_obstacles(pod, node))


def matches_affinity(pod: Pod, node: Node) -> bool:
    """Tell whether a node has the labels that a pod's node selector and required node affinity demand."""
    demands = pod.demands
    return all(node.labels.get(key) == value for key, value in demands.node_selector.items()) and (
        demands.node_terms is None or matches_any(node, demands.node_terms)
    )


def layout(pod: Pod) -> Layout:
    """Return what nodes must have in common to be the same to a pod as far as :func:`node_obstacles` goes."""
    demands = pod.demands
    terms = [*(demands.node_terms or ()), *(term for volume in demands.volume_terms for term in volume)]
    keys = (each.key for term in terms for each in term.expressions)
    return Layout(
        values=tuple(sorted({*demands.node_selector, *keys})),
        presence=tuple(sorted(_topology_keys(pod))),
        by_name=pod.node is not None or any(term.fields for term in terms),
    )


def _node_obstacles(pod: Pod, node: Node) -> Iterator[Obstacle]:
    demands = pod.demands
    if node.unschedulable and not tolerates_cordon(demands.tolerations):
        yield Obstacle(reason=Reason.UNSCHEDULABLE)
    if pod.node is not None and pod.node != node.name:
        yield Obstacle(reason=Reason.NODE_NAME)
    for key in dict.fromkeys(taint.key for taint in untolerated(node, demands.tolerations)):
        yield Obstacle(reason=Reason.TAINT, detail=key)
    if not matches_affinity(pod, node):
        yield Obstacle(reason=Reason.NODE_AFFINITY)
    if not all(matches_any(node, terms) for terms in demands.volume_terms):
        yield Obstacle(reason=Reason.VOLUME_NODE_AFFINITY)
    for constraint in demands.spread:
        if constraint.topology_key not in node.labels:
            yield Obstacle(reason=Reason.SPREAD, detail=constraint.topology_key)
    for term in demands.affinity:
        if term.topology_key not in node.labels:
            yield Obstacle(reason=Reason.POD_AFFINITY, detail=term.topology_key)


def _topology_keys(pod: Pod) -> set[str]:
    demands = pod.demands
    return {each.topology_key for each in demands.spread} | {each.topology_key for each in demands.affinity}
