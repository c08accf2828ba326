from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.cluster.model import LabelSelector, Node, Pod, PodAffinityTerm, PodConstraints, SelectorRequirement
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.pod_topology import (
    find_domains_of_all_terms,
    find_domains_of_any_term,
    find_existing_anti_affinity,
    iter_bound_pods,
    matches_own_affinity,
)

NODES = [Node(name=name, labels={"zone": zone, "host": name}) for name, zone in (("a", "x"), ("b", "y"))]
WEB, DB = ((SelectorRequirement(key="app", operator="In", values=(app,)),) for app in ("web", "db"))
TEAM: LabelSelector = (SelectorRequirement(key="team", operator="Exists"),)
BY_ZONE = PodAffinityTerm(topology_key="zone", selector=WEB, namespaces=frozenset({"n"}))
BY_HOST = replace(BY_ZONE, topology_key="host")
OF_A_TEAM = replace(BY_ZONE, namespaces=frozenset(), namespace_selector=TEAM)


def pod(app: str = "web", on: str | None = "a", namespace: str = "n", constraints: PodConstraints | None = None) -> Pod:
    return Pod(
        name=f"{app}-{on}",
        namespace=namespace,
        node=on,
        labels={"app": app},
        constraints=constraints or PodConstraints(),
    )


def test_pods_that_wait_or_are_nowhere_known_or_elsewhere_make_none():
    others = [pod(on=None), pod(on="unknown"), pod(namespace="m")]
    assert find_domains_of_any_term((BY_ZONE,), Occupancy.build(NODES, others)).sure == set()


def test_a_pod_that_is_being_deleted_still_makes_a_place():
    leaving = replace(pod(), terminating=True)
    assert find_domains_of_any_term((BY_ZONE,), Occupancy.build(NODES, [leaving])).sure == {("zone", "x")}


def test_terms_may_mean_different_pods_or_the_same():
    databases = replace(BY_HOST, selector=DB)
    occupancy = Occupancy.build(NODES, [pod(), pod("db", "b")])
    assert find_domains_of_any_term((BY_ZONE, databases), occupancy).sure == {("zone", "x"), ("host", "b")}
    assert find_domains_of_all_terms((BY_ZONE, databases), occupancy).sure == set()
    assert find_domains_of_all_terms((BY_ZONE, BY_HOST), occupancy).sure == {("zone", "x"), ("host", "a")}


def test_a_node_without_the_label_is_no_place():
    term = replace(BY_ZONE, topology_key="rack")
    assert find_domains_of_any_term((term,), Occupancy.build(NODES, [pod()])).sure == set()


def test_pods_keep_others_away_from_their_place():
    guard = pod("db", "b", constraints=PodConstraints(anti_affinity=(BY_ZONE,)))
    occupancy = Occupancy.build(NODES, [guard, pod("db", "unknown", constraints=guard.constraints)])
    assert find_existing_anti_affinity(pod(on=None), occupancy).sure == {("zone", "y")}
    assert find_existing_anti_affinity(pod("db", None), occupancy).sure == set()
    assert find_existing_anti_affinity(pod(on=None, namespace="m"), occupancy).sure == set()


def test_a_pod_may_mean_itself():
    assert matches_own_affinity(pod(constraints=PodConstraints(affinity=(BY_ZONE, BY_HOST)))) is True
    assert (
        matches_own_affinity(pod(constraints=PodConstraints(affinity=(BY_ZONE, replace(BY_HOST, selector=DB)))))
        is False
    )
    assert matches_own_affinity(pod(constraints=PodConstraints(affinity=(BY_ZONE, OF_A_TEAM)))) is None


def test_pods_with_the_same_labels_are_looked_at_once():
    labels = {"app": "web"}
    pods = [Pod(name=name, namespace="n", node="a", labels=labels) for name in "pqr"]
    asked = []
    found = iter_bound_pods(Occupancy.build(NODES, pods), "n", predicate=lambda each: asked.append(each) is None)
    assert (list(found), asked) == (pods, [labels])
