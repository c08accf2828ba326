"""Pods that wait for a node which is being cleared for them: their place is kept.

As kube-scheduler does (framework/runtime/framework.go, ``RunFilterPluginsWithNominatedPods``): a node must take a pod
with and without the pods of the same or a higher priority that are nominated to it. For all but spreading and rules
between pods, with them says it all. Affinity is not looked at here: more pods cannot take it away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodAffinityTerm
from gpuspawner.core.cluster.occupancy import PODS, Occupancy
from gpuspawner.core.cluster.pod_terms import may_select_pod, selects_pod
from gpuspawner.core.scheduling.obstacles import Obstacle, Reason
from gpuspawner.core.text.language import gettext_lazy

UNKNOWN_NAMESPACES = Obstacle(
    reason=Reason.UNDECIDED, detail=gettext_lazy("a rule about pods in namespaces with certain labels")
)


class NominatedPods:
    """The nominated pods that go before one pod.

    :ivar nodes: names of the nodes that are kept for them.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy) -> None:
        self._pod = pod
        self._occupancy = occupancy
        self._pods: dict[str, list[Pod]] = {}
        for other in occupancy.nominated_pods:
            if other.nominated_node and other.priority >= pod.priority and _get_key(other) != _get_key(pod):
                self._pods.setdefault(other.nominated_node, []).append(other)
        self.nodes = self._pods.keys()

    def list_pods(self, node: str) -> Iterable[Pod]:
        """Return the pods that a node is kept for."""
        return self._pods.get(node, ())

    def get_requested(self, node: str) -> Mapping[str, int]:
        """Return what is requested on a node with them."""
        requested = self._occupancy.get_requested(node)
        if node not in self._pods:
            return requested
        total = Counter(requested)
        for other in self._pods[node]:
            total.update({**other.requests, PODS: 1})
        return total

    def list_host_ports(self, node: str) -> Iterable[HostPort]:
        """Return the ports of a node that are taken with them."""
        taken = set(self._occupancy.list_host_ports(node))
        return taken.union(*(other.constraints.host_ports for other in self.list_pods(node)))

    def find_obstacles(self, node: Node) -> Iterator[Obstacle]:
        """Yield what their anti-affinity, and the pod's to them, puts in the way on a node that is kept for them."""
        for other in self.list_pods(node.name):
            for term in _select_local_terms(self._pod.constraints.anti_affinity, node):
                meant = may_select_pod(term, other.namespace, labels=other.labels)
                yield from _make_obstacle(meant, reason=Reason.POD_ANTI_AFFINITY, key=term.topology_key)
            for term in _select_local_terms(other.constraints.anti_affinity, node):
                meant = selects_pod(term, self._pod.namespace, labels=self._pod.labels)
                yield from _make_obstacle(meant, reason=Reason.EXISTING_ANTI_AFFINITY, key=term.topology_key)


def _select_local_terms(terms: Iterable[PodAffinityTerm], node: Node) -> Iterable[PodAffinityTerm]:
    return (term for term in terms if term.topology_key in node.labels)


def _make_obstacle(meant: bool | None, *, reason: Reason, key: str) -> Iterator[Obstacle]:
    if meant is not False:
        yield Obstacle(reason=reason, detail=key) if meant else UNKNOWN_NAMESPACES


def _get_key(pod: Pod) -> tuple[str, str]:
    return pod.namespace, pod.name
