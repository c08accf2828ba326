"""Check nodes by the filters that depend on other pods: NodePorts, PodTopologySpread and InterPodAffinity.

A nominated pod is a pending pod for which kube-scheduler makes room on a node by preemption. A node must accept a pod
both with and without the node's nominated pods of the same or a higher priority (kube-scheduler's
framework/runtime/framework.go, ``RunFilterPluginsWithNominatedPods``). Some filters need only one of the two checks:

- resources and ports: with the nominated pods, because they only take room
- pod affinity: without the nominated pods, because more pods cannot break pod affinity

If ``floor`` (a priority) is given, this module checks each node as if the node's pods with a lower priority were gone.
kube-scheduler does the same before a preemption (plugins/defaultpreemption/default_preemption.go,
``SelectVictimsOnNode``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodAffinityTerm
from gpuspawner.core.cluster.selectors import may_select_pod, selects_pod
from gpuspawner.core.cluster.state import PODS, Occupancy
from gpuspawner.core.scheduling.pod_topology import (
    MatchingDomains,
    SpreadCheck,
    find_domains_of_all_terms,
    find_domains_of_any_term,
    find_existing_anti_affinity,
    matches_own_affinity,
)
from gpuspawner.core.scheduling.results import Obstacle, Reason
from gpuspawner.core.text.i18n import gettext_lazy

UNKNOWN_NAMESPACES = Obstacle(
    reason=Reason.UNDECIDED, detail=gettext_lazy("a rule about pods in namespaces with certain labels")
)


UNKNOWN_PRIORITY = Obstacle(
    reason=Reason.UNDECIDED, detail=gettext_lazy("the priority that the cluster gives the server")
)


class NominatedPods:
    """The nominated pods that have at least the priority of a given pod.

    A nominated pod is a pending pod for which kube-scheduler makes room on a node by preemption.

    :ivar nodes: names of the nodes to which these pods are nominated.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy, *, floor: int | None = None) -> None:
        self._pod = pod
        self._occupancy = occupancy
        self._floor = floor
        self._pods: dict[str, list[Pod]] = {}
        for other in occupancy.nominated_pods:
            is_other = (other.namespace, other.name) != (pod.namespace, pod.name)
            if other.nominated_node and other.priority >= pod.priority and is_other:
                self._pods.setdefault(other.nominated_node, []).append(other)
        self.nodes = self._pods.keys()

    def list_pods(self, node: str) -> Iterable[Pod]:
        """Return the pods nominated to a node."""
        return self._pods.get(node, ())

    def get_requested(self, node: str) -> Mapping[str, int]:
        """Return resource → amount that a node's bound pods and nominated pods request.

        DRA devices that nominated pods request are left out: kube-scheduler reserves none for these pods, as its plugin
        DynamicResources has no ``PreFilterExtensions``.
        """
        requested, known = self._occupancy.get_requested(node, self._floor), self._occupancy.get_node(node)
        if node not in self._pods:
            return requested
        total = Counter(requested)
        for nominated in self._pods[node]:
            total.update({**nominated.requests, PODS: 1})
        total.update(self._occupancy.count_more_volumes(node, self._pods[node], floor=self._floor))
        published = () if known is None else known.published_by_dra
        return {**total, **{name: requested.get(name, 0) for name in published}}

    def list_host_ports(self, node: str) -> Iterable[HostPort]:
        """Return the host ports in use on a node, including those of nominated pods."""
        used = set(self._occupancy.list_host_ports(node, self._floor))
        return used.union(*(nominated.constraints.host_ports for nominated in self.list_pods(node)))

    def find_obstacles(self, node: Node) -> Iterator[Obstacle]:
        """Yield the obstacles from anti-affinity between the given pod and the pods nominated to a node.

        There is one obstacle for each anti-affinity term of the given pod that selects a nominated pod, and one for
        each anti-affinity term of a nominated pod that selects the given pod.
        """
        for nominated in self.list_pods(node.name):
            for term in _select_local_terms(self._pod.constraints.anti_affinity, node):
                selected = may_select_pod(term, nominated.namespace, labels=nominated.labels)
                yield from _make_obstacle(selected, reason=Reason.POD_ANTI_AFFINITY, key=term.topology_key)
            for term in _select_local_terms(nominated.constraints.anti_affinity, node):
                selected = selects_pod(term, self._pod.namespace, labels=self._pod.labels)
                yield from _make_obstacle(selected, reason=Reason.EXISTING_ANTI_AFFINITY, key=term.topology_key)


def _select_local_terms(terms: Iterable[PodAffinityTerm], node: Node) -> Iterable[PodAffinityTerm]:
    return (term for term in terms if term.topology_key in node.labels)


def _make_obstacle(selected: bool | None, *, reason: Reason, key: str) -> Iterator[Obstacle]:
    if selected is not False:
        yield Obstacle(reason=reason, detail=key) if selected else UNKNOWN_NAMESPACES


_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # all addresses of a node; nothing listens here
_UNREAD_CLAIM = gettext_lazy("a volume claim that wasn't checked")
GATED_OBSTACLES = (Obstacle(reason=Reason.GATED),)
"""The obstacle that every node has for a pod with scheduling gates: kube-scheduler ignores the pod until the gates are
removed."""


def find_undecided(pod: Pod) -> tuple[Obstacle, ...]:
    """Return an ``UNDECIDED`` obstacle for each constraint of the pod that gpuspawner does not check."""
    words = (*pod.constraints.undecided, *((_UNREAD_CLAIM,) if pod.constraints.unread_claims else ()))
    return tuple(Obstacle(reason=Reason.UNDECIDED, detail=each) for each in words)


class PodFilters:
    """Checks nodes for one pod by the filters that depend on other pods; the constructor reads all pods once.

    :param floor: a priority; the check of a node ignores its bound pods with a lower priority. None = ignore no pods.
    :ivar is_inactive: True if these filters accept every node that is not in ``special_nodes``.
    :ivar special_nodes: names of nodes for which :meth:`get_requested` differs from that of :class:`.Occupancy`:
        nodes with nominated pods, and nodes where other pods use volumes of the checked pod.
    """

    def __init__(self, pod: Pod, occupancy: Occupancy, *, floor: int | None = None) -> None:
        constraints = pod.constraints
        self._constraints = constraints
        self._spread = [
            SpreadCheck(constraint, pod, occupancy=occupancy, floor=floor)
            for constraint in constraints.spread_constraints
        ]
        self._affinity_domains = find_domains_of_all_terms(constraints.affinity, occupancy, floor=floor)
        self._affinity_keys = {term.topology_key for term in constraints.affinity}
        self._matches_itself = matches_own_affinity(pod)
        own, existing = (
            find_domains_of_any_term(constraints.anti_affinity, occupancy, floor=floor),
            find_existing_anti_affinity(pod, occupancy, floor=floor),
        )
        self._existing = existing
        self._avoided = ((own, Reason.POD_ANTI_AFFINITY), (existing, Reason.EXISTING_ANTI_AFFINITY))
        avoided = own.sure | own.maybe | existing.sure | existing.maybe
        self._avoided_keys = sorted({key for key, _ in avoided})
        self._avoided_values = {value for _, value in avoided}
        self._needs_domains = bool(constraints.spread_constraints or constraints.affinity)
        self._keys = (*self._avoided_keys, *(each.key for each in self._spread), *self._affinity_keys)
        self._nominated = NominatedPods(pod, occupancy, floor=floor)
        self._shared = occupancy.find_shared_volumes(pod, floor)
        self.special_nodes = self._nominated.nodes | self._shared.keys()
        self.is_inactive = not (constraints.host_ports or self._keys)

    def find_obstacles(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the obstacles that other pods cause on a node.

        :param node: a node that passes :class:`.node_filters.NodeFilters`.
        """
        found = self._find_by_domain(node) if self._keys else ()
        if node.name in self._nominated.nodes:
            found = (*found, *self._check_nominated_affinity(node), *self._check_nominated_spread(node))
        ports = self._constraints.host_ports
        if ports and _has_port_conflict(ports, self._nominated.list_host_ports(node.name)):
            return (Obstacle(reason=Reason.HOST_PORT), *found)
        return found

    def get_requested(self, node: str) -> Mapping[str, int]:
        """Return resource → amount that a node's bound pods and nominated pods request.

        Volumes that the checked pod also uses are left out, because the checked pod's own request includes them.
        """
        requested, shared = self._nominated.get_requested(node), self._shared.get(node)
        if not shared:
            return requested
        return {name: number - shared.get(name, 0) for name, number in requested.items()}

    def _check_nominated_affinity(self, node: Node) -> tuple[Obstacle, ...]:
        """Return the obstacles from anti-affinity between the pod and the pods nominated to a node.

        If the pod has neither affinity nor anti-affinity, and no bound pod's anti-affinity selects the pod,
        kube-scheduler skips the whole filter InterPodAffinity, also for nominated pods (``Skip`` in its PreFilter).
        """
        has_terms = self._constraints.affinity or self._constraints.anti_affinity
        if not has_terms and not self._existing.sure and not self._existing.maybe:
            return ()
        found = tuple(self._nominated.find_obstacles(node))
        return found if has_terms or self._existing.sure else (UNKNOWN_NAMESPACES,) * bool(found)

    def _check_nominated_spread(self, node: Node) -> Iterator[Obstacle]:
        for spread in self._spread:
            if not spread.allows_with(node, self._nominated.list_pods(node.name)):
                yield Obstacle(reason=Reason.SPREAD, detail=spread.key)

    def _find_by_domain(self, node: Node) -> tuple[Obstacle, ...]:
        if not self._needs_domains and self._avoided_values.isdisjoint(map(node.labels.get, self._avoided_keys)):
            return ()
        return tuple(self._check_domain(node))

    def _check_domain(self, node: Node) -> Iterator[Obstacle]:
        for spread in self._spread:
            if not spread.allows(node):
                yield Obstacle(reason=Reason.SPREAD, detail=spread.key)
        if self._constraints.affinity:
            yield from self._check_affinity(node)
        for domains, reason in self._avoided:
            yield from _find_matching_domains(domains, node, keys=self._avoided_keys, reason=reason)

    def _check_affinity(self, node: Node) -> Iterator[Obstacle]:
        """Yield an obstacle if a node does not meet the pod's required pod affinity, or if this is unknown.

        As in kube-scheduler (satisfyPodAffinity), there is no obstacle if the affinity terms select the pod itself and
        do not select any bound pod: the pod may then be the first of its group.
        """
        domains, known = {(key, node.labels[key]) for key in self._affinity_keys}, self._affinity_domains
        if all(known.is_sure(each, without=node.name) for each in domains):
            return
        missing = [each for each in domains if not known.is_possible(each, without=node.name)]
        if self._matches_itself is not False and not known.has_sure(without=node.name):
            if known.has_possible(without=node.name) or self._matches_itself is None:
                yield UNKNOWN_NAMESPACES
        elif not missing:
            yield UNKNOWN_NAMESPACES
        else:
            yield Obstacle(reason=Reason.POD_AFFINITY, detail=min(key for key, _ in missing))


def _find_matching_domains(
    domains: MatchingDomains, node: Node, *, keys: Iterable[str], reason: Reason
) -> Iterator[Obstacle]:
    for key in keys:
        domain = (key, node.labels.get(key, ""))
        if key in node.labels and domains.is_sure(domain, without=node.name):
            yield Obstacle(reason=reason, detail=key)
        elif key in node.labels and domains.is_possible(domain, without=node.name):
            yield UNKNOWN_NAMESPACES


def _has_port_conflict(ports: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether one of a pod's host ports is already used, as ``CheckConflict`` of kube-scheduler does.

    Two equal ports conflict if their addresses are equal, or if one of the addresses stands for all addresses.
    """
    used = tuple(used)
    return any(
        (port.protocol, port.port) == (other.protocol, other.port)
        and (port.ip == other.ip or _ANY_ADDRESS in (port.ip, other.ip))
        for port in ports
        for other in used
    )
