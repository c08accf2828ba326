from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.cluster.model import Demands, Node, Pod, PodTerm, Requirement, Selector
from gpuspawner.core.cluster.occupancy import Occupancy
from gpuspawner.core.scheduling.nearby import bound_pods, means_itself, places_of_all, places_of_each, places_of_guards

NODES = [Node(name=name, labels={"zone": zone, "host": name}) for name, zone in (("a", "x"), ("b", "y"))]
WEB, DB = ((Requirement(key="app", operator="In", values=(app,)),) for app in ("web", "db"))
TEAM: Selector = (Requirement(key="team", operator="Exists"),)
BY_ZONE = PodTerm(topology_key="zone", selector=WEB, namespaces=frozenset({"n"}))
BY_HOST = replace(BY_ZONE, topology_key="host")
OF_A_TEAM = replace(BY_ZONE, namespaces=frozenset(), namespace_selector=TEAM)


def pod(app: str = "web", on: str | None = "a", namespace: str = "n", demands: Demands | None = None) -> Pod:
    return Pod(name=f"{app}-{on}", namespace=namespace, node=on, labels={"app": app}, demands=demands or Demands())


def test_pods_make_the_places_they_are_at():
    places = places_of_each((BY_ZONE,), Occupancy.of(NODES, [pod(), pod("db", "b")]))
    assert (places.sure, places.maybe) == ({("zone", "x")}, set())


def test_pods_that_wait_or_are_nowhere_known_or_elsewhere_make_none():
    others = [pod(on=None), pod(on="unknown"), pod(namespace="m")]
    assert places_of_each((BY_ZONE,), Occupancy.of(NODES, others)).sure == set()


def test_a_pod_that_is_being_deleted_still_makes_a_place():
    leaving = replace(pod(), deleting=True)
    assert places_of_each((BY_ZONE,), Occupancy.of(NODES, [leaving])).sure == {("zone", "x")}


def test_terms_may_mean_different_pods_or_the_same():
    databases = replace(BY_HOST, selector=DB)
    occupancy = Occupancy.of(NODES, [pod(), pod("db", "b")])
    assert places_of_each((BY_ZONE, databases), occupancy).sure == {("zone", "x"), ("host", "b")}
    assert places_of_all((BY_ZONE, databases), occupancy).sure == set()
    assert places_of_all((BY_ZONE, BY_HOST), occupancy).sure == {("zone", "x"), ("host", "a")}


def test_no_terms_mean_no_pods():
    assert places_of_all((), Occupancy.of(NODES, [pod()])).sure == set()


def test_a_node_without_the_label_is_no_place():
    term = replace(BY_ZONE, topology_key="rack")
    assert places_of_each((term,), Occupancy.of(NODES, [pod()])).sure == set()


def test_pods_in_namespaces_with_unknown_labels_may_count():
    places = places_of_each((OF_A_TEAM,), Occupancy.of(NODES, [pod()]))
    assert (places.sure, places.maybe) == (set(), {("zone", "x")})


def test_pods_keep_others_away_from_their_place():
    guard = pod("db", "b", demands=Demands(anti_affinity=(BY_ZONE,)))
    occupancy = Occupancy.of(NODES, [guard, pod("db", "unknown", demands=guard.demands)])
    assert places_of_guards(pod(on=None), occupancy).sure == {("zone", "y")}
    assert places_of_guards(pod("db", None), occupancy).sure == set()
    assert places_of_guards(pod(on=None, namespace="m"), occupancy).sure == set()


def test_pods_may_keep_others_away():
    guard = pod("db", "b", demands=Demands(anti_affinity=(OF_A_TEAM,)))
    places = places_of_guards(pod(on=None), Occupancy.of(NODES, [guard]))
    assert (places.sure, places.maybe) == (set(), {("zone", "y")})


def test_a_pod_may_mean_itself():
    assert means_itself(pod(demands=Demands(affinity=(BY_ZONE, BY_HOST)))) is True
    assert means_itself(pod(demands=Demands(affinity=(BY_ZONE, replace(BY_HOST, selector=DB))))) is False
    assert means_itself(pod(demands=Demands(affinity=(BY_ZONE, OF_A_TEAM)))) is None


def test_pods_with_the_same_labels_are_looked_at_once():
    labels = {"app": "web"}
    pods = [Pod(name=name, namespace="n", node="a", labels=labels) for name in "pqr"]
    asked = []
    found = bound_pods(Occupancy.of(NODES, pods), "n", wanted=lambda each: asked.append(each) is None)
    assert (list(found), asked) == (pods, [labels])
