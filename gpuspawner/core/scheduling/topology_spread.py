"""Check topology spread constraints with ``DoNotSchedule``, as kube-scheduler's podtopologyspread/filtering.go does.

A domain is a value of the node label that the constraint's ``topologyKey`` names. If ``floor`` (a priority) is given,
the check of a node ignores this node's pods with a lower priority, because kube-scheduler may preempt these pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpuspawner.core.cluster.model import Node, Pod, SpreadConstraint
from gpuspawner.core.cluster.selectors import matches_node_affinity, selects_labels
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.scheduling.node_filters import build_node_grouping
from gpuspawner.core.scheduling.pod_affinity import iter_bound_pods


class SpreadCheck:
    """One topology spread constraint of one pod, with the number of matching pods in each domain.

    :ivar removable: node name → number of the node's matching pods that kube-scheduler may preempt (those with a
        priority below the floor).
    """

    def __init__(
        self, constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy, floor: int | None = None
    ) -> None:
        self.key = constraint.topology_key
        self._constraint = constraint
        self._namespace = pod.namespace
        self._domains = _find_domains(constraint, pod, occupancy=occupancy)
        self._own_count = int(selects_labels(constraint.selector, pod.labels))
        self._counts = dict.fromkeys(self._domains.values(), 0)
        self.removable: Counter[str] = Counter()
        self._count_pods(occupancy, floor)
        self._minimum = self._find_minimum(self._counts)

    def allows(self, node: Node) -> bool:
        """Return whether the spread constraint accepts a node.

        :param node: a node that has the constraint's topology label.
        """
        left = self._counts.get(node.labels[self.key], 0) - self.removable[node.name]
        skew = left + self._own_count - min(self._minimum, left)
        return skew <= self._constraint.max_skew

    def allows_with(self, node: Node, more: Iterable[Pod]) -> bool:
        """Return whether the spread constraint accepts a node that runs additional pods.

        :param node: a node that has the constraint's topology label.
        :param more: the additional pods; the node's own bound pods count, too.
        """
        counts = dict(self._counts)
        if node.name in self._domains:
            counts[node.labels[self.key]] += (
                sum(
                    other.namespace == self._namespace and selects_labels(self._constraint.selector, other.labels)
                    for other in more
                )
                - self.removable[node.name]
            )
        skew = counts.get(node.labels[self.key], 0) + self._own_count - self._find_minimum(counts)
        return skew <= self._constraint.max_skew

    def _find_minimum(self, counts: Mapping[str, int]) -> int:
        return 0 if len(counts) < self._constraint.min_domains else min(counts.values(), default=0)

    def _count_pods(self, occupancy: Occupancy, floor: int | None) -> None:
        selector = self._constraint.selector
        if not selector:  # For an empty selector, kube-scheduler counts no pods (countPodsMatchSelector).
            return
        for other in iter_bound_pods(
            occupancy, self._namespace, predicate=lambda labels: selects_labels(selector, labels)
        ):
            # Terminating pods do not count, https://github.com/kubernetes/kubernetes/issues/87621
            if other.terminating or other.node is None or (domain := self._domains.get(other.node)) is None:
                continue
            self._counts[domain] += 1
            if floor is not None and other.priority < floor:
                self.removable[other.node] += 1


def _find_domains(constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy) -> Mapping[str, str]:
    """Return node name → domain, for the nodes that count for a spread constraint.

    These nodes have the topology labels of all spread constraints of the pod. The constraint's ``honor_affinity`` and
    ``honor_taints`` can exclude further nodes.
    """
    table = occupancy.table
    keys = {each.topology_key for each in pod.constraints.spread_constraints}
    return {
        (node := table.get_by_row(row)).name: node.labels[constraint.topology_key]
        for group in table.group_nodes(build_node_grouping(pod))
        if keys <= group.example.labels.keys()
        and (not constraint.honor_affinity or matches_node_affinity(group.example, pod.constraints))
        and (not constraint.honor_taints or tolerates_taints(group.example, pod.constraints.tolerations))
        for row in group.rows
    }
