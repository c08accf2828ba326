from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.dra import ClusterDevices, NodeDevices
from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodAffinityTerm, PodConstraints, SpreadConstraint
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.pod_filters import UNKNOWN_PRIORITY
from gpuspawner.core.scheduling.results import Answer, Obstacle, Reason
from gpuspawner.core.scheduling.scan import check_node, fits_somewhere, scan_nodes
from tests.unit.core.pods_and_nodes import ASKING, NODES, OTHERS

GPU = "nvidia.com/gpu"
PORT = frozenset({HostPort("0.0.0.0", "TCP", 80)})
BY_ZONE = PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))
EVEN = SpreadConstraint(max_skew=1, topology_key="host", selector=())


def node(name: str, cpu: int = 8) -> Node:
    return Node(name=name, labels={"zone": "x", "host": name}, allocatable={"cpu": cpu, "pods": 3})


def pod(cpu: int = 8, on: str | None = None, priority: int = 0, **constraints: Any) -> Pod:
    return Pod(
        name=f"p-{on}-{priority}",
        namespace="n",
        node=on,
        requests={"cpu": cpu},
        priority=priority,
        constraints=PodConstraints(**constraints),
    )


def placeholder(on: str, cpu: int = 8, **constraints: Any) -> Pod:
    """Return a pod with the priority of zero-to-jupyterhub's user placeholders."""
    return pod(cpu, on, -10, **constraints)


def ask(own: Pod, *others: Pod) -> Answer:
    return scan_nodes(own, Occupancy.build([node("a"), node("b")], others)).answer


def test_what_placeholders_hold_is_room():
    occupancy = Occupancy.build([node("a"), node("b")], [placeholder("a"), pod(2, "b"), placeholder("b", 5)])
    found = scan_nodes(pod(3), occupancy)
    assert (found.answer, found.places, found.places_exact) == (Answer.YES, 2 + 2, True)


@pytest.mark.parametrize(
    ("own", "others"),
    [
        pytest.param(pod(), [placeholder("a"), pod(1, "b")], id="resources"),
        pytest.param(pod(1), [*(replace(placeholder("a", 0), name=name) for name in "pqr"), pod(8, "b")], id="slots"),
        pytest.param(
            pod(1, host_ports=PORT), [placeholder("a", 1, host_ports=PORT), pod(1, "b", host_ports=PORT)], id="ports"
        ),
        pytest.param(pod(1, anti_affinity=(BY_ZONE,)), [placeholder("a", 1)], id="own-anti-affinity"),
        pytest.param(pod(1), [placeholder("a", 1, anti_affinity=(BY_ZONE,))], id="their-anti-affinity"),
    ],
)
def test_a_pod_preempts_on_one_node(own: Pod, others: list[Pod]):
    expected = {True: Answer.YES, False: Answer.NO}
    found = {preempts: ask(replace(own, preempts=preempts), *others) for preempts in expected}
    assert found == expected


def test_pods_of_lower_priority_on_two_nodes_keep_their_zone():
    others = [placeholder("a", 1), placeholder("b", 1)]
    assert ask(pod(1, anti_affinity=(BY_ZONE,)), *others) is Answer.NO
    assert ask(pod(1, anti_affinity=(BY_ZONE,)), *others[:1]) is Answer.YES


def test_a_preemption_evens_out_a_spread():
    own = pod(1, spread_constraints=(replace(EVEN, selector=()),))
    assert ask(own, placeholder("a"), pod(8, "b")) is Answer.YES


def test_a_pod_does_not_preempt_the_pods_that_it_wants_to_be_near():
    near = pod(4, affinity=(BY_ZONE,))
    assert ask(near, placeholder("a", 4), pod(8, "b", 1)) is Answer.YES  # beside the placeholder, without a preemption
    others = [replace(placeholder("a"), namespace="n"), replace(pod(8, "b", 1), namespace="m")]
    assert ask(replace(near, labels={}, namespace="m"), *others) is Answer.NO


@pytest.mark.parametrize("priority", [-11, -10])
def test_pods_of_the_same_or_a_higher_priority_stay(priority: int):
    assert ask(pod(priority=priority), placeholder("a"), placeholder("b")) is Answer.NO


def test_claims_of_preempted_pods_keep_their_devices():
    devices = NodeDevices(capacity={GPU: 1}, allocatable={GPU: 1}, claimed={GPU: 1})
    occupancy = Occupancy.build([node("a")], [placeholder("a")])
    occupancy.put_devices(ClusterDevices(nodes={"a": devices}))
    own = replace(pod(), requests={"cpu": 8, GPU: 1})
    (node_a,) = occupancy.nodes
    found = check_node(own, node_a, occupancy=occupancy)
    assert found.obstacles == (Obstacle(reason=Reason.INSUFFICIENT, detail=GPU),)
    assert scan_nodes(own, occupancy).answer is Answer.NO


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        pytest.param(2, (Answer.YES, True, 1), id="room-for-any-priority"),
        pytest.param(8, (Answer.UNKNOWN, False, 0), id="room-for-some-priority"),
        pytest.param(9, (Answer.NO, False, 0), id="never-room"),
    ],
)
def test_without_a_known_priority_a_preemption_is_unknown(cpu: int, expected: tuple[Answer, bool, int]):
    own = replace(pod(cpu), preempts=None)
    occupancy = Occupancy.build([node("a")], [pod(6, "a", 1000)])
    found = scan_nodes(own, occupancy)
    assert (found.answer, fits_somewhere(own, occupancy), found.places) == expected
    assert check_node(own, node("a"), occupancy=occupancy).answer is expected[0]
    assert found.undecided == ((UNKNOWN_PRIORITY.detail,) if expected[0] is Answer.UNKNOWN else ())


def test_room_follows_the_pods_that_come_and_go():
    occupancy = Occupancy.build([node("a")], [placeholder("a")])
    found = [scan_nodes(pod(4), occupancy).places]
    occupancy.put_pod(pod(3, "a", 5))
    found.append(scan_nodes(pod(4), occupancy).places)
    occupancy.put_pod(replace(pod(1, "a", 5), requests={"cpu": 1}))
    occupancy.put_node(node("a", 13))
    found.append(scan_nodes(pod(4), occupancy).places)
    occupancy.remove_pod("n", placeholder("a").name)
    found.append(scan_nodes(pod(4), occupancy).places)
    occupancy.remove_node("a")
    occupancy.put_node(node("b", 4))
    assert (found, scan_nodes(pod(4), occupancy).places) == ([2, 1, 2, 2], 1)


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_with_equal_priorities_no_pod_is_preempted(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.build(nodes, [replace(each, priority=asking.priority) for each in pods])
    assert scan_nodes(asking, occupancy) == scan_nodes(replace(asking, preempts=False), occupancy)


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_a_node_says_what_it_says_without_its_pods_of_lower_priority(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.build(nodes, pods)
    own = replace(asking, preempts=False)
    for each in occupancy.nodes:
        left = [
            other for other in occupancy.iter_pods() if other.node != each.name or other.priority >= asking.priority
        ]
        ways = {
            check_node(own, each, occupancy=known).answer
            for known in (occupancy, Occupancy.build(occupancy.nodes, left))
        }
        expected = next((answer for answer in (Answer.YES, Answer.UNKNOWN) if answer in ways), Answer.NO)
        assert check_node(asking, each, occupancy=occupancy).answer is expected


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_a_survey_without_placeholders_says_what_one_with_them_says(nodes: list[Node], pods: list[Pod], asking: Pod):
    """Pods without labels and rules of their own, as placeholders are, make no other difference than their room."""
    plain = [
        replace(each, priority=-10, labels={}, nominated_node=None, constraints=PodConstraints())
        if each.name in "rst"
        else each
        for each in pods
    ]
    own = replace(asking, constraints=replace(asking.constraints, affinity=(), anti_affinity=(), spread_constraints=()))
    known = Occupancy.build(nodes, plain)
    without = Occupancy.build(nodes, [each for each in known.iter_pods() if each.priority >= 0])
    assert scan_nodes(own, known) == scan_nodes(own, without)
