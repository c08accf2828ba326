"""Check a node for a pod without regard to other pods, and compare the pod's requests with the node's free resources.

:class:`NodeFilters` finds obstacles (reasons why the node does not accept the pod) that depend on the node alone: they
stay when other pods end. It checks what these plugins of kube-scheduler check:

- NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, VolumeBinding and VolumeZone
- PodTopologySpread and InterPodAffinity: only whether the node has the topology labels
- DynamicResources: only the maximum number of devices in one ResourceClaim

:func:`find_shortages` does the checks of NodeResourcesFit and NodeVolumeLimits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.core.cluster.dra import fits_claim
from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.node_groups import NodeGrouping
from gpuspawner.core.cluster.selectors import matches_any_term, matches_node_affinity
from gpuspawner.core.cluster.state import PODS
from gpuspawner.core.cluster.taints import find_untolerated_taints, tolerates_cordon
from gpuspawner.core.cluster.volumes import VOLUMES_PREFIX
from gpuspawner.core.scheduling.results import Obstacle, Reason
from gpuspawner.core.text.i18n import gettext_lazy

ResourceNeeds = tuple[tuple[str, int], ...]
"""(resource, amount) pairs with amounts above 0, in the units of :class:`~gpuspawner.core.cluster.model.Node`."""

UNKNOWN_AMOUNTS = Obstacle(reason=Reason.UNDECIDED, detail=gettext_lazy("devices that can't be counted"))


def compute_needs(pod: Pod) -> ResourceNeeds:
    """Return the amounts that a node must have free for a pod.

    These are the pod's requests, the number of the pod's volumes for each CSI driver, and 1 of the resource ``pods``.
    Resources that the pod does not request are left out.
    """
    requested = sorted((name, number) for name, number in pod.requests.items() if number > 0 and name != PODS)
    return ((PODS, 1), *requested, *sorted(pod.attachments.items()))


def find_shortages(needs: ResourceNeeds, node: Node, *, requested: Mapping[str, int]) -> tuple[Obstacle, ...]:
    """Return an obstacle for each resource of which a node has too little free for a pod.

    The result also contains :data:`UNKNOWN_AMOUNTS` if the node's amount of a needed resource is unknown.

    :param requested: resource → amount that is already taken on the node.
    """
    return (
        *find_unknown_amounts(needs, node),
        *(
            make_shortage(name)
            for name, number in select_countable(needs, node)
            if node.allocatable.get(name, 0) - requested.get(name, 0) < number
        ),
    )


def select_countable(needs: ResourceNeeds, node: Node) -> ResourceNeeds:
    """Return the amounts that a pod needs, without resources whose amount on the node is unknown."""
    return tuple(each for each in needs if each[0] not in node.uncounted) if node.uncounted else needs


def find_unknown_amounts(needs: ResourceNeeds, node: Node) -> tuple[Obstacle, ...]:
    """Return :data:`UNKNOWN_AMOUNTS` in a tuple if the node's amount of a needed resource is unknown, else ()."""
    return () if select_countable(needs, node) == needs else (UNKNOWN_AMOUNTS,)


def make_shortage(resource: str) -> Obstacle:
    """Return the obstacle for a resource of which a node has too little free."""
    if resource == PODS:
        return Obstacle(reason=Reason.TOO_MANY_PODS)
    if resource.startswith(VOLUMES_PREFIX):
        return Obstacle(reason=Reason.VOLUME_LIMIT)
    return Obstacle(reason=Reason.INSUFFICIENT, detail=resource)


_NODE_AFFINITY_OBSTACLE = Obstacle(reason=Reason.NODE_AFFINITY)


class NodeFilters:
    """Checks whether nodes accept one pod, by kube-scheduler's filters that do not depend on other pods."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._taint_obstacles: dict[int, tuple[Obstacle, ...]] = {}
        """``id()`` of a node's ``taints`` → obstacles. Nodes with equal taints share one tuple."""

    def find_obstacles(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the reasons why a node does not accept the pod, apart from other pods and free resources.

        The ``id()`` of the node's taints is a cache key, so the node must live as long as this :class:`NodeFilters`.
        """
        obstacles = self._taint_obstacles.get(id(node.taints))
        if obstacles is None:
            taints = find_untolerated_taints(node, self._pod.constraints.tolerations)
            keys = dict.fromkeys(taint.key for taint in taints)
            obstacles = tuple(Obstacle(reason=Reason.TAINT, detail=key) for key in keys)
            self._taint_obstacles[id(node.taints)] = obstacles
        return (
            *_check_state(self._pod, node),
            *obstacles,
            *_check_labels(self._pod, node),
            *_check_claim(self._pod, node),
        )


def build_node_grouping(pod: Pod) -> NodeGrouping:
    """Return how to group nodes so that :class:`NodeFilters` finds the same obstacles on all nodes of a group."""
    constraints = pod.constraints
    terms = [*(constraints.node_terms or ()), *(term for volume in constraints.volume_terms for term in volume)]
    keys = (each.key for term in terms for each in term.expressions)
    return NodeGrouping(
        values=tuple(sorted({*constraints.node_selector, *keys})),
        presence=tuple(sorted(pod.constraints.topology_keys)),
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


def _check_claim(pod: Pod, node: Node) -> Iterator[Obstacle]:
    if not fits_claim(node, pod.requests.items()):
        yield from map(make_shortage, sorted((node.published_by_dra | node.uncounted) & pod.requests.keys()))
