"""Whether kube-scheduler would put a pod on a node: the same filters with the same results, and with reasons.

The filters are those that Kubernetes 1.36 has on by default (pkg/scheduler/apis/config/v1/default_plugins.go). What
they look at and nobody read here (namespaces' labels, claims, devices) makes an answer UNKNOWN where it could be YES.

Like kube-scheduler, nobody here looks at whether a node is ready: one that is not gets taints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.node_filters import find_node_obstacles
from gpuspawner.core.scheduling.pod_filters import GATED_OBSTACLES, PodFilters, find_undecided
from gpuspawner.core.scheduling.resources import compute_needs, find_shortages
from gpuspawner.core.scheduling.results import FitResult, derive_answer, sort_obstacles


def check_node(pod: Pod, node: Node, *, occupancy: Occupancy) -> FitResult:
    """Return whether a pod that waits, or does not exist yet, could be bound to a node right now.

    Obstacles of the node itself hide those that come from other pods: whoever ends, they stay.

    :param node: one of the occupancy's nodes.
    """
    return _run_filters(pod, node, filters=lambda: PodFilters(pod, occupancy))


def check_each_node(pod: Pod, occupancy: Occupancy) -> Iterator[tuple[Node, FitResult]]:
    """Yield all nodes in the order of their names, each with what :func:`check_node` says of it."""
    filters = PodFilters(pod, occupancy)
    for node in occupancy.nodes:
        yield node, _run_filters(pod, node, filters=lambda: filters)


def _run_filters(pod: Pod, node: Node, *, filters: Callable[[], PodFilters]) -> FitResult:
    """Return what a node is to a pod.

    :param filters: asked only where the node itself has nothing against the pod.
    """
    obstacles = GATED_OBSTACLES if pod.constraints.is_gated else find_node_obstacles(pod, node)
    if not obstacles:
        others = filters()
        lacks = find_shortages(compute_needs(pod), node, requested=others.get_requested(node.name))
        obstacles = sort_obstacles((*others.find_obstacles(node), *lacks, *find_undecided(pod)))
    return FitResult(answer=derive_answer(obstacles), obstacles=obstacles)
