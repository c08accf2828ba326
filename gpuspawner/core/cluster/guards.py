"""Anti-affinity of the pods that are there already: whom they keep away from their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuspawner.core.cluster.model import Pod, PodAffinityTerm

_TermCounts = dict[PodAffinityTerm, dict[str, int]]
"""Term → node → how many pods with that term are there. Replicas have equal terms, so there are few."""


class AntiAffinityIndex:
    """Required anti-affinity terms of bound pods, found by the namespace they look in."""

    def __init__(self) -> None:
        self._in_namespace: dict[str, _TermCounts] = {}
        self._by_labels: _TermCounts = {}

    def add(self, pod: Pod) -> None:
        """Take the terms of a bound pod in."""
        self._change(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Take the terms of a bound pod out."""
        self._change(pod, -1)

    def iter_terms(self, namespace: str) -> Iterator[tuple[PodAffinityTerm, Mapping[str, int]]]:
        """Yield the terms that look in a namespace, or may, each with nodes and how many pods have it there."""
        yield from self._in_namespace.get(namespace, {}).items()
        yield from self._by_labels.items()

    def _change(self, pod: Pod, by: int) -> None:
        if pod.node is None:
            return
        for term in pod.constraints.anti_affinity:
            if term.namespace_selector is not None:
                _change_count(self._by_labels, term, node=pod.node, by=by)
                continue
            for namespace in term.namespaces:
                places = self._in_namespace.setdefault(namespace, {})
                _change_count(places, term, node=pod.node, by=by)
                if not places:
                    del self._in_namespace[namespace]


def _change_count(places: _TermCounts, term: PodAffinityTerm, *, node: str, by: int) -> None:
    nodes = places.setdefault(term, {})
    nodes[node] = nodes.get(node, 0) + by
    if not nodes[node]:
        del nodes[node]
    if not nodes:
        del places[term]
