"""Check whether kube-scheduler would bind a pod to a node, with the reasons if not.

The filters are those that Kubernetes 1.36 enables by default (pkg/scheduler/apis/config/v1/default_plugins.go). If a
filter needs data that gpuspawner does not read (namespace labels, claims, devices), the answer is UNKNOWN, not YES. The
condition Ready is not checked: like kube-scheduler, this relies on the taints that a NotReady node gets.
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
    """Return whether kube-scheduler could bind a pod to a node now.

    Obstacles from other pods are left out if the node has obstacles of its own, as those stay when other pods end.

    :param pod: pending, or not created yet.
    :param node: a node of the occupancy.
    :param occupancy: all nodes and pods.
    """
    return _run_filters(pod, node, filters=lambda: PodFilters(pod, occupancy))


def check_each_node(pod: Pod, occupancy: Occupancy) -> Iterator[tuple[Node, FitResult]]:
    """Yield all nodes by name, each with the result of :func:`check_node`.

    :param pod: pending, or not created yet.
    :param occupancy: all nodes and pods.
    """
    filters = PodFilters(pod, occupancy)
    for node in occupancy.nodes:
        yield node, _run_filters(pod, node, filters=lambda: filters)


def _run_filters(pod: Pod, node: Node, *, filters: Callable[[], PodFilters]) -> FitResult:
    """Return the result for one node.

    :param filters: called only if the node has no obstacle of its own, as building the filters is expensive.
    """
    obstacles = GATED_OBSTACLES if pod.constraints.is_gated else find_node_obstacles(pod, node)
    if not obstacles:
        pod_filters = filters()
        shortages = find_shortages(compute_needs(pod), node, requested=pod_filters.get_requested(node.name))
        obstacles = sort_obstacles((*pod_filters.find_obstacles(node), *shortages, *find_undecided(pod)))
    return FitResult(answer=derive_answer(obstacles), obstacles=obstacles)
