"""Filters that look at a node alone: what stands there stays, however many pods end.

As kube-scheduler's plugins NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, VolumeBinding and VolumeZone
decide, and, of PodTopologySpread and InterPodAffinity, that a node must have the label that says where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.node_choice import admits
from gpuspawner.core.cluster.node_table import Layout
from gpuspawner.core.cluster.node_terms import matches_any
from gpuspawner.core.cluster.tolerations import tolerates_cordon, untolerated
from gpuspawner.core.scheduling.obstacles import Obstacle, Reason

_NOT_CHOSEN = Obstacle(reason=Reason.NODE_AFFINITY)


class NodeFilters:
    """What keeps one pod off nodes whatever runs there; the same for all nodes of a pool of :func:`layout`."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._tainted: dict[int, tuple[Obstacle, ...]] = {}
        """By the identity of a node's taints, which most nodes share (:mod:`gpuspawner.core.cluster.decode`)."""

    def obstacles(self, node: Node) -> tuple[Obstacle, ...]:
        """Return what keeps the pod off a node that stays as it is while this is used."""
        demands = self._pod.demands
        tainted = self._tainted.get(id(node.taints))
        if tainted is None:
            keys = dict.fromkeys(taint.key for taint in untolerated(node, demands.tolerations))
            tainted = tuple(Obstacle(reason=Reason.TAINT, detail=key) for key in keys)
            self._tainted[id(node.taints)] = tainted
        return (*_of_its_state(self._pod, node), *tainted, *_of_its_labels(self._pod, node))


def node_obstacles(pod: Pod, node: Node) -> tuple[Obstacle, ...]:
    """Return what keeps a pod off one node whatever runs there."""
    return NodeFilters(pod).obstacles(node)


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


def _of_its_state(pod: Pod, node: Node) -> Iterator[Obstacle]:
    if node.unschedulable and not tolerates_cordon(pod.demands.tolerations):
        yield Obstacle(reason=Reason.UNSCHEDULABLE)
    if pod.node is not None and pod.node != node.name:
        yield Obstacle(reason=Reason.NODE_NAME)


def _of_its_labels(pod: Pod, node: Node) -> Iterator[Obstacle]:
    demands = pod.demands
    if not admits(node, demands):
        yield _NOT_CHOSEN
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
