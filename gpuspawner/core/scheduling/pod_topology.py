"""Check pod affinity, anti-affinity and topology spread constraints: they depend on pods in the same topology domain.

A domain is a pair of a node label and a value. For pod affinity and anti-affinity, this module finds the domains with
matching pods, as kube-scheduler's interpodaffinity/filtering.go does. For topology spread constraints with
``DoNotSchedule``, it counts the matching pods of each domain, as podtopologyspread/filtering.go does.

gpuspawner does not read namespaces' labels. If an affinity term selects namespaces by labels, gpuspawner therefore
cannot tell whether the term selects the pods of a domain.

The parameter ``floor`` is a priority. To make room for a new pod on a node, kube-scheduler may preempt this node's pods
with a priority below ``floor``, so the checks of the node ignore these pods. If ``floor`` is None, all pods count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.cluster.model import Node, Pod, PodAffinityTerm, SpreadConstraint
from gpuspawner.core.cluster.node_groups import get_example
from gpuspawner.core.cluster.selectors import (
    matches_node_affinity,
    may_cover_namespace,
    may_select_pod,
    selects_labels,
    selects_pod,
)
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.taints import tolerates_taints
from gpuspawner.core.scheduling.node_filters import build_node_grouping

TopologyPair = tuple[str, str]
"""Node label and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingDomains:
    """Topology domains with matching pods.

    The function that fills this object decides which pods match: either pods that given affinity or anti-affinity terms
    select, or pods whose own anti-affinity selects a given pod.

    Several methods take ``without``, the name of a node: its pods for which :meth:`add` got ``removable=True`` do not
    count.
    """

    _sure: dict[TopologyPair, set[str]] = field(default_factory=dict)
    """Domain → names of nodes with a preemptible matching pod. An empty name in the set means that the domain has a
    matching pod that is not preemptible."""
    _maybe: dict[TopologyPair, set[str]] = field(default_factory=dict)

    @property
    def sure(self) -> KeysView[TopologyPair]:
        """Topology domains with a pod that certainly matches."""
        return self._sure.keys()

    @property
    def maybe(self) -> KeysView[TopologyPair]:
        """Topology domains with a pod that may match, depending on namespace labels, which gpuspawner does not read."""
        return self._maybe.keys()

    def add(self, node: Node, keys: Iterable[str], *, known: bool, removable: bool = False) -> None:
        """Store that a node runs a matching pod.

        For each of ``keys`` that is a label of the node, this adds a topology domain to :attr:`sure` or :attr:`maybe`.

        :param keys: topology keys of the terms because of which the pod matches.
        :param known: True if the pod certainly matches. False if it is unknown whether the pod matches, because
            gpuspawner does not read the labels of namespaces.
        :param removable: True if kube-scheduler may preempt the pod to make room for another pod on the node.
        """
        holder = node.name if removable else ""
        for key in keys:
            if key in node.labels:
                (self._sure if known else self._maybe).setdefault((key, node.labels[key]), set()).add(holder)

    def is_sure(self, domain: TopologyPair, *, without: str) -> bool:
        """Return whether a topology domain certainly still has a matching pod after a preemption on one node."""
        return _is_held(self._sure.get(domain), without)

    def is_possible(self, domain: TopologyPair, *, without: str) -> bool:
        """Return whether a topology domain still has, or may still have, a matching pod after a preemption on one node.

        gpuspawner may not know whether a pod matches, because it does not read the labels of namespaces.
        """
        return self.is_sure(domain, without=without) or _is_held(self._maybe.get(domain), without)

    def has_sure(self, *, without: str) -> bool:
        """Return whether any topology domain certainly still has a matching pod after a preemption on one node."""
        return any(_is_held(holders, without) for holders in self._sure.values())

    def has_possible(self, *, without: str) -> bool:
        """Return whether any topology domain has, or may have, a matching pod left after a preemption on one node.

        gpuspawner may not know whether a pod matches, because it does not read the labels of namespaces.
        """
        return self.has_sure(without=without) or any(_is_held(holders, without) for holders in self._maybe.values())


def _is_held(holders: set[str] | None, without: str) -> bool:
    return holders is not None and holders != {without}


def find_existing_anti_affinity(pod: Pod, occupancy: Occupancy, *, floor: int | None = None) -> MatchingDomains:
    """Return the topology domains from which the anti-affinity of bound pods excludes a given pod."""
    domains = MatchingDomains()
    for term, places in occupancy.anti_affinity_index.iter_terms(pod.namespace):
        selected = selects_pod(term, pod.namespace, labels=pod.labels)
        if selected is False:
            continue
        for name, priority in places:
            if (node := occupancy.get_node(name)) is not None:
                removable = floor is not None and priority < floor
                domains.add(node, (term.topology_key,), known=selected is True, removable=removable)
    return domains


def find_domains_of_any_term(
    terms: tuple[PodAffinityTerm, ...], occupancy: Occupancy, *, floor: int | None = None
) -> MatchingDomains:
    """Return the topology domains of the bound pods that at least one of the pod affinity terms selects.

    A pod adds one domain for each term that selects the pod: the domain of the term's topology key.
    """
    domains = MatchingDomains()
    for term in terms:
        _add_domains((term,), occupancy, domains=domains, floor=floor)
    return domains


def find_domains_of_all_terms(
    terms: tuple[PodAffinityTerm, ...], occupancy: Occupancy, *, floor: int | None = None
) -> MatchingDomains:
    """Return the topology domains of the bound pods that all of the pod affinity terms select.

    Each of these pods adds one domain for each term's topology key.
    """
    domains = MatchingDomains()
    if terms:
        _add_domains(terms, occupancy, domains=domains, floor=floor)
    return domains


def matches_own_affinity(pod: Pod) -> bool | None:
    """Return whether all pod affinity terms of a pod select the pod itself.

    The result is None if that depends on the labels of namespaces, which gpuspawner does not read.
    """
    answers = [may_select_pod(term, pod.namespace, labels=pod.labels) for term in pod.constraints.affinity]
    if False in answers:
        return False
    return None if None in answers else True


def iter_bound_pods(
    occupancy: Occupancy, namespace: str, *, predicate: Callable[[Mapping[str, str]], bool]
) -> Iterator[Pod]:
    """Yield the bound pods of a namespace for whose labels ``predicate`` returns True.

    Pods with equal labels mostly share one dict of labels (:mod:`gpuspawner.core.cluster.decode`), so this function
    caches the predicate's results by the ``id()`` of the dict.
    """
    answers: dict[int, bool] = {}
    for pod in occupancy.iter_pods(namespace):
        if pod.node is None:
            continue
        answer = answers.get(id(pod.labels))
        if answer is None:
            answer = answers[id(pod.labels)] = predicate(pod.labels)
        if answer:
            yield pod


def _add_domains(
    terms: tuple[PodAffinityTerm, ...], occupancy: Occupancy, *, domains: MatchingDomains, floor: int | None
) -> None:
    keys = [term.topology_key for term in terms]
    for namespace in occupancy.namespaces:
        covered = [may_cover_namespace(term, namespace) for term in terms]
        if False in covered:
            continue
        known = None not in covered
        for pod in iter_bound_pods(
            occupancy, namespace, predicate=lambda labels: all(selects_labels(term.selector, labels) for term in terms)
        ):
            if pod.node is not None and (node := occupancy.get_node(pod.node)) is not None:
                domains.add(node, keys, known=known, removable=floor is not None and pod.priority < floor)


class SpreadCheck:
    """One topology spread constraint of one pod, with the number of matching pods in each domain.

    :ivar removable: node name → number of the node's matching pods that kube-scheduler may preempt.
    """

    def __init__(
        self, constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy, floor: int | None = None
    ) -> None:
        self.key = constraint.topology_key
        self._constraint = constraint
        self._namespace = pod.namespace
        self._domains = _find_spread_domains(constraint, pod, occupancy=occupancy)
        self._own_count = int(selects_labels(constraint.selector, pod.labels))
        self._counts = dict.fromkeys(self._domains.values(), 0)
        self.removable: Counter[str] = Counter()
        self._count_pods(occupancy, floor)
        self._minimum = self._find_minimum(self._counts)

    def allows(self, node: Node) -> bool:
        """Return whether the pod can run on a node without exceeding the constraint's ``maxSkew``.

        Pods on this node that kube-scheduler may preempt do not count.

        :param node: a node that has the constraint's topology label.
        """
        left = self._counts.get(node.labels[self.key], 0) - self.removable[node.name]
        skew = left + self._own_count - min(self._minimum, left)
        return skew <= self._constraint.max_skew

    def allows_with(self, node: Node, more: Iterable[Pod]) -> bool:
        """Return whether the pod could run on a node without exceeding ``maxSkew`` if the node ran additional pods.

        Pods on this node that kube-scheduler may preempt do not count.

        :param node: a node that has the constraint's topology label.
        :param more: the additional pods, without the pods that are already bound to the node.
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


def _find_spread_domains(constraint: SpreadConstraint, pod: Pod, *, occupancy: Occupancy) -> Mapping[str, str]:
    """Return node name → domain, for the nodes that count for a spread constraint.

    These nodes have the topology labels of all spread constraints of the pod. The constraint's ``honor_affinity`` and
    ``honor_taints`` can exclude further nodes.
    """
    keys = {each.topology_key for each in pod.constraints.spread_constraints}
    return {
        node.name: node.labels[constraint.topology_key]
        for group in occupancy.node_groups.group_nodes(build_node_grouping(pod))
        if keys <= (example := get_example(group)).labels.keys()
        and (not constraint.honor_affinity or matches_node_affinity(example, pod.constraints))
        and (not constraint.honor_taints or tolerates_taints(example, pod.constraints.tolerations))
        for node in group.values()
    }
