"""Filters that look at a node alone: what stands there stays, however many pods end.

As kube-scheduler's plugins NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, VolumeBinding and VolumeZone
decide, and, of PodTopologySpread and InterPodAffinity, that a node must have the label that says where it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.node_affinity import matches_node_affinity
from gpuspawner.core.cluster.node_table import NodeGrouping
from gpuspawner.core.cluster.selectors import matches_any_term
from gpuspawner.core.cluster.taints import find_untolerated_taints, tolerates_cordon
from gpuspawner.core.scheduling.results import Obstacle, Reason

_NODE_AFFINITY_OBSTACLE = Obstacle(reason=Reason.NODE_AFFINITY)


class NodeFilters:
    """What keeps one pod off nodes whatever runs there.

    The answer is the same for all nodes of a group that :func:`build_node_grouping` makes.
    """

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._tainted: dict[int, tuple[Obstacle, ...]] = {}
        """By the identity of a node's taints, which most nodes share (:mod:`gpuspawner.core.cluster.decode`)."""

    def find_obstacles(self, node: Node) -> tuple[Obstacle, ...]:
        """Return what keeps the pod off a node that stays as it is while this is used."""
        constraints = self._pod.constraints
        tainted = self._tainted.get(id(node.taints))
        if tainted is None:
            keys = dict.fromkeys(taint.key for taint in find_untolerated_taints(node, constraints.tolerations))
            tainted = tuple(Obstacle(reason=Reason.TAINT, detail=key) for key in keys)
            self._tainted[id(node.taints)] = tainted
        return (*_check_state(self._pod, node), *tainted, *_check_labels(self._pod, node))


def find_node_obstacles(pod: Pod, node: Node) -> tuple[Obstacle, ...]:
    """Return what keeps a pod off one node whatever runs there."""
    return NodeFilters(pod).find_obstacles(node)


def build_node_grouping(pod: Pod) -> NodeGrouping:
    """Return what nodes must have in common to be the same to a pod as far as :func:`find_node_obstacles` goes."""
    constraints = pod.constraints
    terms = [*(constraints.node_terms or ()), *(term for volume in constraints.volume_terms for term in volume)]
    keys = (each.key for term in terms for each in term.expressions)
    return NodeGrouping(
        values=tuple(sorted({*constraints.node_selector, *keys})),
        presence=tuple(sorted(_list_topology_keys(pod))),
        by_name=pod.node is not None or any(term.fields for term in terms),
    )


def _check_state(pod: Pod, node: Node) -> Iterator[Obstacle]:
    if node.unschedulable and not tolerates_cordon(pod.constraints.tolerations):
        yield Obstacle(reason=Reason.UNSCHEDULABLE)
    if pod.node is not None and pod.node != node.name:
        yield Obstacle(reason=Reason.NODE_NAME)


def _check_labels(pod: Pod, node: Node) -> Iterator[Obstacle]:
    constraints = pod.constraints
    if not matches_node_affinity(node, constraints):
        yield _NODE_AFFINITY_OBSTACLE
    if not all(matches_any_term(node, terms) for terms in constraints.volume_terms):
        yield Obstacle(reason=Reason.VOLUME_NODE_AFFINITY)
    for constraint in constraints.spread_constraints:
        if constraint.topology_key not in node.labels:
            yield Obstacle(reason=Reason.SPREAD, detail=constraint.topology_key)
    for term in constraints.affinity:
        if term.topology_key not in node.labels:
            yield Obstacle(reason=Reason.POD_AFFINITY, detail=term.topology_key)


def _list_topology_keys(pod: Pod) -> set[str]:
    constraints = pod.constraints
    return {each.topology_key for each in constraints.spread_constraints} | {
        each.topology_key for each in constraints.affinity
    }
