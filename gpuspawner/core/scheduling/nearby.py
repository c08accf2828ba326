"""Which places other pods make good or bad for a pod: affinity and anti-affinity, its own and theirs.

As kube-scheduler's interpodaffinity/filtering.go counts. A place is a node label and a value of it. Terms may look for
namespaces by labels, which nobody here knows: then it is only known that a place may count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuspawner.core.cluster.model import Node, Pod, PodTerm
from gpuspawner.core.cluster.occupancy import Occupancy
from gpuspawner.core.cluster.pod_terms import concerns, may_concern, may_look_in, selects

Place = tuple[str, str]
"""Label and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places with pods that count.

    :param sure: they do.
    :param maybe: they do if their namespaces have certain labels.
    """

    sure: set[Place] = field(default_factory=set)
    maybe: set[Place] = field(default_factory=set)

    def add(self, node: Node, keys: Iterable[str], *, known: bool) -> None:
        """Take the places in that a node belongs to."""
        (self.sure if known else self.maybe).update((key, node.labels[key]) for key in keys if key in node.labels)


def places_of_guards(pod: Pod, occupancy: Occupancy) -> Places:
    """Return the places that pods with anti-affinity to this one have for themselves."""
    places = Places()
    for term, nodes in occupancy.guards.that_look_in(pod.namespace):
        meant = concerns(term, pod.namespace, labels=pod.labels)
        if meant is False:
            continue
        for name in nodes:
            if (node := occupancy.node(name)) is not None:
                places.add(node, (term.topology_key,), known=meant is True)
    return places


def places_of_each(terms: tuple[PodTerm, ...], occupancy: Occupancy) -> Places:
    """Return the places of the pods that any of these terms means."""
    places = Places()
    for term in terms:
        _add_places((term,), occupancy, places=places)
    return places


def places_of_all(terms: tuple[PodTerm, ...], occupancy: Occupancy) -> Places:
    """Return the places of the pods that these terms mean all at once, for each term by its own label."""
    places = Places()
    if terms:
        _add_places(terms, occupancy, places=places)
    return places


def means_itself(pod: Pod) -> bool | None:
    """Tell whether a pod's affinity terms all mean a pod like itself; None where that cannot be told."""
    answers = [may_concern(term, pod.namespace, labels=pod.labels) for term in pod.demands.affinity]
    if False in answers:
        return False
    return None if None in answers else True


def bound_pods(occupancy: Occupancy, namespace: str, *, wanted: Callable[[Mapping[str, str]], bool]) -> Iterator[Pod]:
    """Yield pods of a namespace that are bound and have labels as wanted.

    Pods with the same labels share one object (:mod:`gpuspawner.core.cluster.interning`), so each is looked at once.
    """
    answers: dict[int, bool] = {}
    for pod in occupancy.pods(namespace):
        if pod.node is None:
            continue
        answer = answers.get(id(pod.labels))
        if answer is None:
            answer = answers[id(pod.labels)] = wanted(pod.labels)
        if answer:
            yield pod


def _add_places(terms: tuple[PodTerm, ...], occupancy: Occupancy, *, places: Places) -> None:
    keys = [term.topology_key for term in terms]
    for namespace in occupancy.namespaces:
        looked_in = [may_look_in(term, namespace) for term in terms]
        if False in looked_in:
            continue
        known = None not in looked_in
        for pod in bound_pods(
            occupancy, namespace, wanted=lambda labels: all(selects(term.selector, labels) for term in terms)
        ):
            if pod.node is not None and (node := occupancy.node(pod.node)) is not None:
                places.add(node, keys, known=known)
