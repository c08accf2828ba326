"""Filters that look at the pods on a node, and on others: ports, spreading, affinity between pods.

As kube-scheduler's plugins NodePorts, PodTopologySpread and InterPodAffinity decide.

Pods that wait for a node which is being cleared for them: their place is kept.

As kube-scheduler does (framework/runtime/framework.go, ``RunFilterPluginsWithNominatedPods``): a node must take a pod
with and without the pods of the same or a higher priority that are nominated to it. For all but spreading and rules
between pods, with them says it all. Affinity is not looked at here: more pods cannot take it away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodAffinityTerm
from gpuspawner.core.cluster.selectors import may_select_pod, selects_pod
from gpuspawner.core.cluster.state import PODS, Occupancy
from gpuspawner.core.scheduling.pod_affinity import (
    MatchingDomains,
    find_domains_of_all_terms,
    find_domains_of_any_term,
    find_existing_anti_affinity,
    matches_own_affinity,
)
from gpuspawner.core.scheduling.results import Obstacle, Reason
from gpuspawner.core.scheduling.topology_spread import SpreadCheck
from gpuspawner.core.text.i18n import gettext_lazy

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


_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing listens here: it stands for all addresses of a node
_UNREAD_CLAIM = gettext_lazy("a volume claim that nobody looked at")
GATED_OBSTACLES = (Obstacle(reason=Reason.GATED),)
"""What keeps a pod with scheduling gates off every node: nobody looks for one before they are gone."""


def find_undecided(pod: Pod) -> tuple[Obstacle, ...]:
    """Return what is not decided for any node."""
    words = (*pod.constraints.undecided, *((_UNREAD_CLAIM,) if pod.constraints.unread_claims else ()))
    return tuple(Obstacle(reason=Reason.UNDECIDED, detail=each) for each in words)


class PodFilters:
    """The filters for one pod, after one look at all pods that are there.

    :ivar is_inactive: no node that is not ``nominated_nodes`` can have an obstacle of these kinds.
    :ivar nominated_nodes: names of nodes that are kept for other pods, which then count as if they were there.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy) -> None:
        constraints = pod.constraints
        self._demands = constraints
        self._spread = [
            SpreadCheck(constraint, pod, occupancy=occupancy) for constraint in constraints.spread_constraints
        ]
        self._affinity_domains = find_domains_of_all_terms(constraints.affinity, occupancy)
        self._matches_itself = matches_own_affinity(pod)
        apart, guarded = (
            find_domains_of_any_term(constraints.anti_affinity, occupancy),
            find_existing_anti_affinity(pod, occupancy),
        )
        self._avoided = ((apart, Reason.POD_ANTI_AFFINITY), (guarded, Reason.EXISTING_ANTI_AFFINITY))
        avoided = apart.sure | apart.maybe | guarded.sure | guarded.maybe
        self._avoided_keys = sorted({key for key, _ in avoided})
        self._avoided_values = {value for _, value in avoided}
        self._wants_places = bool(constraints.spread_constraints or constraints.affinity)
        self._keys = (
            *self._avoided_keys,
            *(each.key for each in self._spread),
            *_list_topology_keys(constraints.affinity),
        )
        self._by_values: dict[tuple[str | None, ...], tuple[Obstacle, ...]] = {}
        self._nominated = NominatedPods(pod, occupancy)
        self.nominated_nodes = self._nominated.nodes
        self.is_inactive = not (constraints.host_ports or self._keys)

    def find_obstacles(self, node: Node) -> tuple[Obstacle, ...]:
        """Return what keeps the pod off a node that :func:`.node_filters.node_obstacles` lets pass."""
        found = self._find_by_domain(node) if self._keys else ()
        if node.name in self.nominated_nodes:
            found = (*found, *self._check_nominated_affinity(node), *self._check_nominated_spread(node))
        ports = self._demands.host_ports
        if ports and _has_port_conflict(ports, self._nominated.list_host_ports(node.name)):
            return (Obstacle(reason=Reason.HOST_PORT), *found)
        return found

    def get_requested(self, node: str) -> Mapping[str, int]:
        """Return what is requested on a node, with the pods it is kept for."""
        return self._nominated.get_requested(node)

    def _check_nominated_affinity(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the obstacles that rules between the pod and those a node is kept for are.

        Where neither the pod has such rules nor those that run have any that mean it, kube-scheduler leaves the whole
        filter out (``Skip`` in InterPodAffinity's PreFilter), and with it the rules of pods that are to come.
        """
        (_, _), (guarded, _) = self._avoided
        rules = self._demands.affinity or self._demands.anti_affinity
        if not rules and not guarded.sure and not guarded.maybe:
            return ()
        found = tuple(self._nominated.find_obstacles(node))
        return found if rules or guarded.sure else (UNKNOWN_NAMESPACES,) * bool(found)

    def _check_nominated_spread(self, node: Node) -> Iterator[Obstacle]:
        for spread in self._spread:
            if not spread.allows_with(node, self._nominated.list_pods(node.name)):
                yield Obstacle(reason=Reason.SPREAD, detail=spread.key)

    def _find_by_domain(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the obstacles that depend on where the node is: looked for once a place."""
        values = tuple(map(node.labels.get, self._keys))
        if not self._wants_places and self._avoided_values.isdisjoint(values):
            return ()
        found = self._by_values.get(values)
        if found is None:
            found = self._by_values[values] = tuple(self._check_domain(node))
        return found

    def _check_domain(self, node: Node) -> Iterator[Obstacle]:
        for spread in self._spread:
            if not spread.allows(node):
                yield Obstacle(reason=Reason.SPREAD, detail=spread.key)
        if self._demands.affinity:
            yield from self._check_affinity(node)
        for places, reason in self._avoided:
            yield from _find_matching_domains(places, node, keys=self._avoided_keys, reason=reason)

    def _check_affinity(self, node: Node) -> Iterator[Obstacle]:
        """Yield an obstacle unless the node is near pods that the pod wants to be near.

        The first pod of many that want to be near each other may go anywhere: where no pod at all is meant, and the pod
        itself would be (``satisfyPodAffinity``).
        """
        wanted = {(key, node.labels[key]) for key in _list_topology_keys(self._demands.affinity)}
        near = self._affinity_domains
        if wanted <= near.sure:
            return
        if not near.sure and self._matches_itself is not False:
            if near.maybe or self._matches_itself is None:
                yield UNKNOWN_NAMESPACES
        elif wanted <= near.sure | near.maybe:
            yield UNKNOWN_NAMESPACES
        else:
            yield Obstacle(reason=Reason.POD_AFFINITY, detail=min(key for key, _ in wanted - near.sure - near.maybe))


def _list_topology_keys(terms: Iterable[PodAffinityTerm]) -> set[str]:
    return {term.topology_key for term in terms}


def _find_matching_domains(
    places: MatchingDomains, node: Node, *, keys: Iterable[str], reason: Reason
) -> Iterator[Obstacle]:
    """Yield an obstacle for each label by which a node is in one of the places."""
    for key in keys:
        place = (key, node.labels.get(key, ""))
        if key in node.labels and place in places.sure:
            yield Obstacle(reason=reason, detail=key)
        elif key in node.labels and place in places.maybe:
            yield UNKNOWN_NAMESPACES


def _has_port_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Tell whether two ports are the same on an address that both take (``HostPortInfo.CheckConflict``)."""
    in_use = tuple(taken)
    return any(
        (one.protocol, one.port) == (other.protocol, other.port)
        and (one.ip == other.ip or _ANY_ADDRESS in (one.ip, other.ip))
        for one in wanted
        for other in in_use
    )
