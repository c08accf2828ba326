"""How evenly pods must be spread over domains: topology spread constraints with ``DoNotSchedule``.

As kube-scheduler's podtopologyspread/filtering.go counts. A domain is a value of the constraint's node label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuspawner.core.cluster.model import Node, Pod, SpreadConstraint
from gpuspawner.core.cluster.node_affinity import matches_node_affinity
from gpuspawner.core.cluster.selectors import selects_labels
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.scheduling.node_filters import build_node_grouping
from gpuspawner.core.scheduling.pod_affinity import iter_bound_pods


class SpreadCheck:
    """One constraint of one pod, and how many pods it counts in each domain."""

    def __init__(self, constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy) -> None:
        self.key = constraint.topology_key
        self._constraint = constraint
        self._namespace = pod.namespace
        self._domains = _find_domains(constraint, pod, occupancy=occupancy)
        self._most = constraint.max_skew
        self._itself = int(selects_labels(constraint.selector, pod.labels))
        self._counts = _count_pods(constraint, pod, occupancy=occupancy, domains=self._domains)
        self._least = self._find_minimum(self._counts)

    def allows(self, node: Node) -> bool:
        """Tell whether the pod may go to a node that has the constraint's label."""
        return self._counts.get(node.labels[self.key], 0) + self._itself - self._least <= self._most

    def allows_with(self, node: Node, more: Iterable[Pod]) -> bool:
        """Tell whether it may go there when some more pods are there."""
        counts = dict(self._counts)
        if node.name in self._domains:
            counts[node.labels[self.key]] += sum(
                other.namespace == self._namespace and selects_labels(self._constraint.selector, other.labels)
                for other in more
            )
        return counts.get(node.labels[self.key], 0) + self._itself - self._find_minimum(counts) <= self._most

    def _find_minimum(self, counts: Mapping[str, int]) -> int:
        """Return how many pods the emptiest domain has."""
        return 0 if len(counts) < self._constraint.min_domains else min(counts.values(), default=0)


def _count_pods(
    constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy, domains: Mapping[str, str]
) -> Mapping[str, int]:
    """Return domain → pods that count, of the nodes that make up domains."""
    counts = dict.fromkeys(domains.values(), 0)
    if not constraint.selector:  # it selects nothing; or everything, which counts as nothing (countPodsMatchSelector)
        return counts
    for other in iter_bound_pods(
        occupancy, pod.namespace, predicate=lambda labels: selects_labels(constraint.selector, labels)
    ):
        # Pods that were told to go do not count, https://github.com/kubernetes/kubernetes/issues/87621
        domain = None if other.terminating or other.node is None else domains.get(other.node)
        if domain is not None:
            counts[domain] += 1
    return counts


def _find_domains(constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy) -> Mapping[str, str]:
    """Return node → domain, of nodes that have the labels of all the pod's constraints and that its policies count."""
    table = occupancy.table
    keys = {each.topology_key for each in pod.constraints.spread_constraints}
    return {
        (node := table.get_by_row(row)).name: node.labels[constraint.topology_key]
        for pool in table.group_nodes(build_node_grouping(pod))
        if keys <= pool.example.labels.keys()
        and (not constraint.honor_affinity or matches_node_affinity(pool.example, pod.constraints))
        and (not constraint.honor_taints or tolerates_taints(pool.example, pod.constraints.tolerations))
        for row in pool.rows
    }
