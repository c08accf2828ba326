from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Node, Pod, PodAffinityTerm, PodConstraints, Taint
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.results import Answer, FitResult, Obstacle, Reason
from gpuspawner.core.scheduling.scan import check_each_node, check_node
from tests.unit.core.pods_and_nodes import ASKING, NODES, OTHERS

NODE = Node(name="a", labels={"zone": "x"}, allocatable={"cpu": 8, "pods": 2})
APART = PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))


def pod(cpu: int = 2, on: str | None = None, **constraints: Any) -> Pod:
    return Pod(name=f"p-{on}", namespace="n", node=on, requests={"cpu": cpu}, constraints=PodConstraints(**constraints))


def fit(own: Pod, *others: Pod, node: Node = NODE) -> FitResult:
    return check_node(own, node, occupancy=Occupancy.build([node], others))


def test_all_that_other_pods_put_in_the_way_is_said_in_order():
    guard = pod(8, "a", anti_affinity=(APART,))
    assert fit(pod(5), guard) == FitResult(
        answer=Answer.NO,
        obstacles=(
            Obstacle(reason=Reason.INSUFFICIENT, detail="cpu"),
            Obstacle(reason=Reason.EXISTING_ANTI_AFFINITY, detail="zone"),
        ),
    )


def test_what_the_node_itself_refuses_hides_the_rest():
    tainted = replace(NODE, taints=(Taint(key="gpu", effect="NoSchedule"),))
    assert fit(pod(99), node=tainted).obstacles == (Obstacle(reason=Reason.TAINT, detail="gpu"),)


def test_a_gated_pod_goes_nowhere():
    assert fit(pod(99, is_gated=True)) == FitResult(answer=Answer.NO, obstacles=(Obstacle(reason=Reason.GATED),))


def test_a_demand_that_no_filter_decides_is_never_yes():
    words = Obstacle(reason=Reason.UNDECIDED, detail="a claim")
    assert fit(pod(undecided=("a claim",))) == FitResult(answer=Answer.UNKNOWN, obstacles=(words,))
    assert fit(pod(undecided=("a claim",)), pod(8, "a")).answer is Answer.NO
    assert fit(pod(unread_claims=("home",))).answer is Answer.UNKNOWN


@given(st.lists(NODES, unique_by=lambda node: node.name), st.lists(OTHERS, unique_by=lambda pod: pod.name), ASKING)
def test_a_look_at_each_node_finds_what_a_look_at_one_does(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.build(nodes, pods)
    assert list(check_each_node(asking, occupancy)) == [
        (node, check_node(asking, node, occupancy=occupancy)) for node in occupancy.nodes
    ]


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING, st.data())
def test_a_pod_that_leaves_takes_no_room_away(nodes: list[Node], pods: list[Pod], asking: Pod, data: st.DataObject):
    # No affinity and no spreading counts a pod without labels.
    constraints = replace(
        asking.constraints, affinity=tuple(each for each in asking.constraints.affinity if each.selector)
    )
    wanted = replace(asking, constraints=constraints)
    leaving = data.draw(OTHERS.map(lambda each: replace(each, name="leaving", labels={})))
    occupancy = Occupancy.build(nodes, [*pods, leaving])
    before = {node.name: check_node(wanted, node, occupancy=occupancy).answer for node in occupancy.nodes}
    occupancy.remove_pod(leaving.namespace, leaving.name)
    for node in occupancy.nodes:
        if before[node.name] is Answer.YES:
            assert check_node(wanted, node, occupancy=occupancy).answer is Answer.YES


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_an_answer_goes_with_its_obstacles(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.build(nodes, pods)
    for node in occupancy.nodes:
        found = check_node(asking, node, occupancy=occupancy)
        kinds = {each.reason is Reason.UNDECIDED for each in found.obstacles}
        assert kinds == {Answer.YES: set(), Answer.UNKNOWN: {True}, Answer.NO: {False}}[found.answer]
