from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.model import (
    HostPort,
    Node,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    SelectorRequirement,
    SpreadConstraint,
)
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.pod_filters import PodFilters, find_undecided
from gpuspawner.core.scheduling.results import Reason

NODES = [Node(name=name, labels={"zone": zone, "host": name}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
WEB, DB = ((SelectorRequirement(key="app", operator="In", values=(app,)),) for app in ("web", "db"))
NEAR_WEB = PodAffinityTerm(topology_key="zone", selector=WEB, namespaces=frozenset({"n"}))
NEAR_DB = replace(NEAR_WEB, selector=DB)
SOMEWHERE = replace(
    NEAR_DB, namespaces=frozenset(), namespace_selector=(SelectorRequirement(key="team", operator="Exists"),)
)
HTTP = HostPort("0.0.0.0", "TCP", 80)


def pod(app: str = "web", on: str | None = None, **constraints: Any) -> Pod:
    return Pod(
        name=f"{app}-{on}", namespace="n", node=on, labels={"app": app}, constraints=PodConstraints(**constraints)
    )


def obstacles(own: Pod, *others: Pod) -> dict[str, list[Reason]]:
    """Return node → what is in the way there, of the nodes where something is."""
    filters = PodFilters(own, Occupancy.build(NODES, others))
    found = {node.name: [each.reason for each in filters.find_obstacles(node)] for node in NODES}
    return {name: reasons for name, reasons in found.items() if reasons}


def test_a_pod_without_rules_has_no_obstacles():
    filters = PodFilters(pod(), Occupancy.build(NODES, [pod("db", "a")]))
    assert filters.is_inactive
    assert filters.find_obstacles(NODES[0]) == ()


@pytest.mark.parametrize(
    ("wanted", "taken", "collides"),
    [
        (HTTP, HTTP, True),
        (HTTP, HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HTTP, True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
        (HTTP, HostPort("0.0.0.0", "UDP", 80), False),
        (HTTP, HostPort("0.0.0.0", "TCP", 81), False),
    ],
)
def test_a_port_can_be_taken_once(wanted: HostPort, taken: HostPort, collides: bool):
    found = obstacles(pod(host_ports=frozenset({wanted})), pod("db", "a", host_ports=frozenset({taken})))
    assert found == ({"a": [Reason.HOST_PORT]} if collides else {})


def test_a_pod_goes_where_the_pods_are_that_it_wants_to_be_near():
    own = pod(affinity=(NEAR_DB,))
    assert obstacles(own, pod("db", "a")) == {"c": [Reason.POD_AFFINITY]}
    assert obstacles(own, pod("db", "a"), pod("db", "c")) == {}


def test_a_pod_that_wants_to_be_near_a_missing_pod_goes_nowhere():
    assert obstacles(pod(affinity=(NEAR_DB,))).keys() == {"a", "b", "c"}


def test_the_first_of_pods_that_want_to_be_near_each_other_goes_anywhere():
    own = pod(affinity=(NEAR_WEB,))
    assert obstacles(own) == {}
    assert obstacles(own, pod("web", "c")).keys() == {"a", "b"}
    both = pod(affinity=(NEAR_WEB, NEAR_DB))
    assert obstacles(both).keys() == {"a", "b", "c"}


def test_all_terms_must_hold_for_the_same_pods():
    own = pod(affinity=(NEAR_DB, replace(NEAR_DB, topology_key="host")))
    assert obstacles(own, pod("db", "a")).keys() == {"b", "c"}


def test_a_pod_keeps_away_from_others():
    own = pod(anti_affinity=(NEAR_DB,))
    assert obstacles(own) == {}
    assert obstacles(own, pod("db", "a")) == {"a": [Reason.POD_ANTI_AFFINITY], "b": [Reason.POD_ANTI_AFFINITY]}


def test_others_keep_a_pod_away():
    guard = pod("db", "c", anti_affinity=(NEAR_WEB,))
    assert obstacles(pod(), guard) == {"c": [Reason.EXISTING_ANTI_AFFINITY]}
    assert obstacles(pod("db"), guard) == {}


def test_rules_by_labels_of_namespaces_are_undecided_where_they_matter():
    undecided_in_x = {"a": [Reason.UNDECIDED], "b": [Reason.UNDECIDED]}
    assert obstacles(pod(anti_affinity=(SOMEWHERE,)), pod("db", "a")) == undecided_in_x
    guard = pod("web", "a", anti_affinity=(SOMEWHERE,))
    assert obstacles(pod("db"), guard) == undecided_in_x
    assert obstacles(pod(affinity=(SOMEWHERE,)), pod("db", "a")) == {**undecided_in_x, "c": [Reason.POD_AFFINITY]}


def test_where_only_maybe_no_pod_matches_the_first_pod_is_undecided():
    own = pod("db", affinity=(SOMEWHERE,))
    assert obstacles(own) == {name: [Reason.UNDECIDED] for name in "abc"}
    own = pod("db", affinity=(replace(SOMEWHERE, namespaces=frozenset({"n"})),))
    assert obstacles(own) == {}
    elsewhere = replace(pod("db", "a"), namespace="m")
    assert obstacles(own, elsewhere) == {name: [Reason.UNDECIDED] for name in "abc"}


def test_a_selector_of_namespaces_that_versions_read_differently_is_undecided():
    not_here = SelectorRequirement(key="kubernetes.io/metadata.name", operator="NotIn", values=("n",))
    own = pod(affinity=(replace(NEAR_WEB, namespaces=frozenset(), namespace_selector=(not_here,)),))
    assert obstacles(own) == {name: [Reason.UNDECIDED] for name in "abc"}


def test_pods_are_spread():
    constraint = SpreadConstraint(max_skew=1, topology_key="zone", selector=WEB)
    own = pod(spread_constraints=(constraint,))
    assert obstacles(own, pod("web", "a")) == {"a": [Reason.SPREAD], "b": [Reason.SPREAD]}


def test_everything_in_the_way_is_found():
    guard = pod("db", "a", anti_affinity=(NEAR_WEB,), host_ports=frozenset({HTTP}))
    own = pod(host_ports=frozenset({HTTP}), anti_affinity=(NEAR_DB,))
    apart = [Reason.POD_ANTI_AFFINITY, Reason.EXISTING_ANTI_AFFINITY]
    assert obstacles(own, guard) == {"a": [Reason.HOST_PORT, *apart], "b": apart}


def test_demands_of_a_pod_that_no_filter_decides_are_named():
    found = find_undecided(pod(unread_claims=("home",), undecided=("something else",)))
    assert [each.detail for each in found] == ["something else", "a volume claim that wasn't checked"]
