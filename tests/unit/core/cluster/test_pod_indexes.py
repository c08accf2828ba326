from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.cluster.model import Pod, PodAffinityTerm, PodConstraints
from gpuspawner.core.cluster.pod_indexes import AntiAffinityIndex

APART = PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset({"hub"}))
BY_LABELS = replace(APART, namespaces=frozenset(), namespace_selector=())


def pod(*terms: PodAffinityTerm, on: str | None = "a") -> Pod:
    return Pod(name="p", namespace="elsewhere", node=on, constraints=PodConstraints(anti_affinity=terms))


def found(guards: AntiAffinityIndex, namespace: str = "hub") -> dict[PodAffinityTerm, set[tuple[str, int]]]:
    return {term: set(places) for term, places in guards.iter_terms(namespace)}


def test_terms_are_found_by_the_namespace_they_look_in():
    guards = AntiAffinityIndex()
    guards.add(pod(APART))
    assert found(guards) == {APART: {("a", 0)}}
    assert found(guards, "elsewhere") == {}


def test_terms_that_look_for_namespaces_by_labels_may_look_anywhere():
    guards = AntiAffinityIndex()
    guards.add(pod(BY_LABELS))
    assert found(guards, "anywhere") == {BY_LABELS: {("a", 0)}}


def test_a_pod_that_waits_keeps_no_pod_away():
    guards = AntiAffinityIndex()
    guards.add(pod(APART, on=None))
    assert found(guards) == {}
