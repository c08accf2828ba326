from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster.dra import ClusterDevices, NodeDevices
from gpuspawner.core.cluster.model import (
    HostPort,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    SelectorRequirement,
    SpreadConstraint,
)
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.pod_filters import NominatedPods
from gpuspawner.core.scheduling.pod_topology import SpreadCheck
from gpuspawner.core.scheduling.results import Obstacle, Reason
from gpuspawner.core.scheduling.scan import check_node, scan_nodes

NODE = Node(name="a", labels={"zone": "x"}, allocatable={"cpu": 8, "pods": 5})
HTTP = HostPort("0.0.0.0", "TCP", 80)
WEB: LabelSelector = (SelectorRequirement(key="app", operator="In", values=("web",)),)
APART = PodAffinityTerm(topology_key="zone", selector=WEB, namespaces=frozenset({"n"}))
OF_A_TEAM = replace(
    APART, namespaces=frozenset(), namespace_selector=(SelectorRequirement(key="team", operator="Exists"),)
)


def pod(name: str = "own", cpu: int = 1, **changes: Any) -> Pod:
    constraints = PodConstraints(**changes.pop("constraints", {}))
    made = Pod(
        name=name, namespace="n", node=None, requests={"cpu": cpu}, labels={"app": "web"}, constraints=constraints
    )
    return replace(made, **changes)


def nominated(cpu: int = 1, **changes: Any) -> Pod:
    return pod("nominated", cpu, nominated_node="a", **changes)


def reasons(own: Pod, other: Pod) -> list[Reason]:
    found = check_node(own, NODE, occupancy=Occupancy.build([NODE], [other]))
    return [each.reason for each in found.obstacles]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [Reason.INSUFFICIENT]),
        ({"priority": 5}, [Reason.INSUFFICIENT]),
        ({"priority": -1}, []),
        ({"nominated_node": "b"}, []),
        ({"nominated_node": None}, []),
        ({"name": "own"}, []),
    ],
)
def test_a_place_is_kept_for_pods_that_go_first(changes: dict[str, Any], expected: list[Reason]):
    assert reasons(pod(cpu=2), replace(nominated(7), **changes)) == expected


def test_their_ports_are_taken():
    ports = {"host_ports": frozenset({HTTP})}
    assert reasons(pod(constraints=ports), nominated(constraints=ports)) == [Reason.HOST_PORT]


def test_they_keep_pods_away_and_are_kept_away_from():
    apart = {"anti_affinity": (APART,)}
    elsewhere = {"anti_affinity": (replace(APART, namespaces=frozenset({"other"})),)}
    assert reasons(pod(constraints=elsewhere), nominated(constraints=apart)) == [Reason.EXISTING_ANTI_AFFINITY]
    assert reasons(pod(constraints=apart), nominated()) == [Reason.POD_ANTI_AFFINITY]
    assert reasons(pod(constraints={"anti_affinity": (OF_A_TEAM,)}), nominated()) == [Reason.UNDECIDED]


def test_their_rules_do_not_count_where_no_other_pod_has_any():
    assert reasons(pod(), nominated(constraints={"anti_affinity": (APART,)})) == []


def test_their_rules_count_with_those_of_pods_that_run():
    apart = {"anti_affinity": (APART,)}
    far = Node(name="b", labels={"zone": "y"}, allocatable={"cpu": 8, "pods": 5})
    running = pod("running", node="b", constraints=apart)
    known = Occupancy.build([NODE, far], [running, nominated(constraints=apart)])
    assert [each.reason for each in check_node(pod(), NODE, occupancy=known).obstacles] == [
        Reason.EXISTING_ANTI_AFFINITY
    ]


def test_they_make_no_place_to_be_near_to():
    near = {"affinity": (APART,)}
    assert reasons(pod(constraints=near, labels={}), nominated()) == [Reason.POD_AFFINITY]


def test_pods_are_spread_with_and_without_them():
    constraint = SpreadConstraint(max_skew=1, topology_key="zone", selector=WEB, min_domains=2)
    assert reasons(pod(constraints={"spread_constraints": (constraint,)}), nominated()) == [Reason.SPREAD]
    assert reasons(pod(constraints={"spread_constraints": (constraint,)}), nominated(labels={})) == []


def test_on_a_node_that_makes_no_domain_they_spread_nothing():
    elsewhere = {"node_selector": {"zone": "y"}}
    constraint = SpreadConstraint(max_skew=1, topology_key="zone", selector=WEB, min_domains=2)
    own = pod(constraints={"spread_constraints": (constraint,), **elsewhere})
    spread = SpreadCheck(constraint, own, occupancy=Occupancy.build([NODE], []))
    assert spread.allows_with(NODE, [nominated(), nominated()])


def test_requested_amounts_count_nominated_pods():
    occupancy = Occupancy.build([NODE], [nominated(3), pod("bound", 2, node="a")])
    assert NominatedPods(pod(), occupancy).get_requested("a") == {"cpu": 5, "pods": 2}
    assert NominatedPods(pod(), occupancy).get_requested("b") == {}
    assert NominatedPods(pod(priority=9), occupancy).get_requested("a") == {"cpu": 2, "pods": 1}


def test_they_are_promised_no_devices_of_a_driver():
    """kube-scheduler's plugin DynamicResources does not look at nominated pods (no ``PreFilterExtensions``)."""
    requests = {"cpu": 3, "gpu": 4}
    occupancy = Occupancy.build([NODE], [replace(nominated(), requests=requests)])
    occupancy.put_devices(ClusterDevices(nodes={"a": NodeDevices(capacity={"gpu": 4}, allocatable={"gpu": 4})}))
    (there,) = occupancy.nodes
    wanted = [replace(pod(), requests={"gpu": 1}), replace(pod(), requests={"cpu": 6, "gpu": 1})]
    found = [check_node(each, there, occupancy=occupancy).obstacles for each in wanted]
    assert found == [(), (Obstacle(reason=Reason.INSUFFICIENT, detail="cpu"),)]
    assert [scan_nodes(each, occupancy).places for each in wanted] == [4, 0]


def test_a_bound_pod_is_nominated_no_longer():
    occupancy = Occupancy.build([NODE], [nominated(3)])
    assert set(NominatedPods(pod(), occupancy).nodes) == {"a"}
    occupancy.put_pod(replace(nominated(3), node="a"))
    assert set(NominatedPods(pod(), occupancy).nodes) == set()
    assert occupancy.get_requested("a") == {"cpu": 3, "pods": 1}
