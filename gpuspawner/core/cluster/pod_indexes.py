"""Find bound pods without a walk over all of them: by their anti-affinity, and by the claims that they use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from gpuspawner.core.cluster.model import Pod, PodAffinityTerm
from gpuspawner.core.cluster.volumes import ClaimKey

_K = TypeVar("_K", bound=Hashable)
_L = TypeVar("_L", bound=Hashable)
_TermCounts = dict[PodAffinityTerm, dict[tuple[str, int], int]]
"""Anti-affinity term → (node name, priority) → number of the node's pods that have this priority and this term."""


class AntiAffinityIndex:
    """Required anti-affinity terms of bound pods, indexed by the namespaces that each term lists.

    Terms with a ``namespaceSelector`` are kept apart, because they may apply to any namespace.
    """

    def __init__(self) -> None:
        self._in_namespace: dict[str, _TermCounts] = {}
        self._by_labels: _TermCounts = {}

    def add(self, pod: Pod) -> None:
        """Add the anti-affinity terms of a bound pod."""
        self._change(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Remove the anti-affinity terms of a bound pod."""
        self._change(pod, -1)

    def iter_terms(self, namespace: str) -> Iterator[tuple[PodAffinityTerm, Iterable[tuple[str, int]]]]:
        """Yield the anti-affinity terms that may apply to a namespace, and where the bound pods with each term are.

        Each yielded pair is a term, and the distinct (node name, priority) pairs of the bound pods that have the term.
        """
        yield from self._in_namespace.get(namespace, {}).items()
        yield from self._by_labels.items()

    def _change(self, pod: Pod, by: int) -> None:
        if pod.node is None:
            return
        for term in pod.constraints.anti_affinity:
            if term.namespace_selector is not None:
                _change_count(self._by_labels, term, inner=(pod.node, pod.priority), by=by)
                continue
            for namespace in term.namespaces:
                terms = self._in_namespace.setdefault(namespace, {})
                _change_count(terms, term, inner=(pod.node, pod.priority), by=by)
                if not terms:
                    del self._in_namespace[namespace]


class ClaimIndex:
    """Index of the PersistentVolumeClaims that bound pods use: the claims by node, and the nodes by claim."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[ClaimKey, int]] = {}
        self._nodes: dict[ClaimKey, dict[str, int]] = {}

    def change(self, pod: Pod, by: int) -> None:
        """Add (``by`` = 1) or remove (``by`` = -1) the PersistentVolumeClaims of a bound pod."""
        if pod.node is None:
            return
        for name in pod.claims:
            claim = (pod.namespace, name)
            _change_count(self._claims, pod.node, inner=claim, by=by)
            _change_count(self._nodes, claim, inner=pod.node, by=by)

    def list_claims(self, node: str, *, without: Iterable[Pod] = ()) -> Iterable[ClaimKey]:
        """Return the PersistentVolumeClaims that the pods on a node use; ignore the pods in ``without``."""
        counts = self._claims.get(node, {})
        less = Counter((pod.namespace, name) for pod in without for name in pod.claims)
        return [claim for claim, number in counts.items() if number > less[claim]]

    def list_nodes(self, claim: ClaimKey) -> Iterable[str]:
        """Return the names of the nodes whose pods use a PersistentVolumeClaim."""
        return self._nodes.get(claim, {}).keys()


def _change_count(counts: dict[_K, dict[_L, int]], outer: _K, *, inner: _L, by: int) -> None:
    numbers = counts.setdefault(outer, {})
    numbers[inner] = numbers.get(inner, 0) + by
    if not numbers[inner]:
        del numbers[inner]
    if not numbers:
        del counts[outer]
