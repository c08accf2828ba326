"""Which places other pods make good or bad for a pod: affinity and anti-affinity, its own and theirs.

As kube-scheduler's interpodaffinity/filtering.go counts. A place is a node label and a value of it. Terms may look for
namespaces by labels, which nobody here knows: then it is only known that a place may count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.cluster.model import Node, Pod, PodAffinityTerm
from gpuspawner.core.cluster.selectors import may_cover_namespace, may_select_pod, selects_labels, selects_pod
from gpuspawner.core.cluster.state import Occupancy

TopologyPair = tuple[str, str]
"""Label and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingDomains:
    """Places with pods that count.

    :param sure: they do.
    :param maybe: they do if their namespaces have certain labels.
    """

    sure: set[TopologyPair] = field(default_factory=set)
    maybe: set[TopologyPair] = field(default_factory=set)

    def add(self, node: Node, keys: Iterable[str], *, known: bool) -> None:
        """Take the places in that a node belongs to."""
        (self.sure if known else self.maybe).update((key, node.labels[key]) for key in keys if key in node.labels)


def find_existing_anti_affinity(pod: Pod, occupancy: Occupancy) -> MatchingDomains:
    """Return the places that pods with anti-affinity to this one have for themselves."""
    places = MatchingDomains()
    for term, nodes in occupancy.anti_affinity_index.iter_terms(pod.namespace):
        meant = selects_pod(term, pod.namespace, labels=pod.labels)
        if meant is False:
            continue
        for name in nodes:
            if (node := occupancy.get_node(name)) is not None:
                places.add(node, (term.topology_key,), known=meant is True)
    return places


def find_domains_of_any_term(terms: tuple[PodAffinityTerm, ...], occupancy: Occupancy) -> MatchingDomains:
    """Return the places of the pods that any of these terms means."""
    places = MatchingDomains()
    for term in terms:
        _add_domains((term,), occupancy, places=places)
    return places


def find_domains_of_all_terms(terms: tuple[PodAffinityTerm, ...], occupancy: Occupancy) -> MatchingDomains:
    """Return the places of the pods that these terms mean all at once, for each term by its own label."""
    places = MatchingDomains()
    if terms:
        _add_domains(terms, occupancy, places=places)
    return places


def matches_own_affinity(pod: Pod) -> bool | None:
    """Tell whether a pod's affinity terms all mean a pod like itself; None where that cannot be told."""
    answers = [may_select_pod(term, pod.namespace, labels=pod.labels) for term in pod.constraints.affinity]
    if False in answers:
        return False
    return None if None in answers else True


def iter_bound_pods(
    occupancy: Occupancy, namespace: str, *, predicate: Callable[[Mapping[str, str]], bool]
) -> Iterator[Pod]:
    """Yield pods of a namespace that are bound and have labels as wanted.

    Pods with the same labels share one object (:mod:`gpuspawner.core.cluster.interning`), so each is looked at once.
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


def _add_domains(terms: tuple[PodAffinityTerm, ...], occupancy: Occupancy, *, places: MatchingDomains) -> None:
    keys = [term.topology_key for term in terms]
    for namespace in occupancy.namespaces:
        looked_in = [may_cover_namespace(term, namespace) for term in terms]
        if False in looked_in:
            continue
        known = None not in looked_in
        for pod in iter_bound_pods(
            occupancy, namespace, predicate=lambda labels: all(selects_labels(term.selector, labels) for term in terms)
        ):
            if pod.node is not None and (node := occupancy.get_node(pod.node)) is not None:
                places.add(node, keys, known=known)
