from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Demands, HostPort, Node, Pod, PodTerm, Taint
from gpuspawner.core.cluster.occupancy import Occupancy
from gpuspawner.core.scheduling.amounts import UNCOUNTED
from gpuspawner.core.scheduling.fit import check
from gpuspawner.core.scheduling.obstacles import Answer, Group, Obstacle, Reason, Survey
from gpuspawner.core.scheduling.survey import fits_somewhere, survey
from tests.unit.core.pods_and_nodes import ASKING, NODES, OTHERS

GPU = "nvidia.com/gpu"
TAINT = Taint(key="gpu", effect="NoSchedule")
NEAR = PodTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))


def node(name: str, cpu: int = 8, **changes: Any) -> Node:
    return replace(Node(name=name, labels={"zone": "x"}, allocatable={"cpu": cpu, "pods": 10}), **changes)


def pod(cpu: int = 2, on: str | None = None, **demands: Any) -> Pod:
    return Pod(name=f"p-{on}", namespace="n", node=on, requests={"cpu": cpu}, demands=Demands(**demands))


def test_places_are_counted_on_all_nodes():
    occupancy = Occupancy.of([node("a"), node("b", 5), node("c", 1)], [pod(3, "a")])
    assert survey(pod(), occupancy) == Survey(
        answer=Answer.YES,
        places=2 + 2,
        places_exact=True,
        could=2,
        groups=(
            Group(nodes=2, obstacles=()),
            Group(nodes=1, obstacles=(Obstacle(reason=Reason.INSUFFICIENT, detail="cpu"),)),
        ),
    )


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, (0, False)), (3, (3, False)), (4, (4, True)), (5, (4, True)), (None, (4, True))]
)
def test_places_are_counted_up_to_a_limit(limit: int | None, expected: tuple[int, bool]):
    found = survey(pod(), Occupancy.of([node("a"), node("b", taints=(TAINT,))], []), limit=limit)
    assert (found.places, found.places_exact, found.answer) == (*expected, Answer.YES)


def test_more_places_than_the_limit_are_not_exact():
    found = survey(pod(8), Occupancy.of([node(name) for name in "abc"], []), limit=2)
    assert (found.places, found.places_exact) == (2, False)


def test_nodes_that_would_take_the_pod_when_empty_could():
    occupancy = Occupancy.of([node("a"), node("b"), node("c", 1), node("d", taints=(TAINT,))], [pod(8, "a")])
    assert survey(pod(), occupancy).could == 2


def test_a_pod_that_fits_nowhere_has_no_place():
    occupancy = Occupancy.of([node("a")], [pod(8, "a")])
    found = survey(pod(), occupancy)
    assert (found.answer, found.places, found.places_exact, found.could) == (Answer.NO, 0, True, 1)


def test_without_nodes_there_is_no_place():
    assert survey(pod(), Occupancy()) == Survey(answer=Answer.NO, places=0, places_exact=True, could=0, groups=())


def test_a_gated_pod_goes_nowhere_yet():
    gated = Group(nodes=1, obstacles=(Obstacle(reason=Reason.GATED),))
    assert survey(pod(gated=True), Occupancy.of([node("a")], [])) == Survey(
        answer=Answer.NO, places=0, places_exact=True, could=1, groups=(gated,)
    )


def test_a_port_leaves_one_place_a_node():
    found = survey(
        pod(host_ports=frozenset({HostPort("0.0.0.0", "TCP", 80)})), Occupancy.of([node("a"), node("b")], [])
    )
    assert (found.places, found.places_exact) == (2, True)


def test_copies_that_have_a_say_in_each_others_place_are_not_counted():
    found = survey(pod(anti_affinity=(NEAR,)), Occupancy.of([node("a"), node("b")], []))
    assert (found.answer, found.places, found.places_exact) == (Answer.YES, 1, False)


def test_what_is_undecided_leaves_no_sure_place():
    occupancy = Occupancy.of([node("a"), node("b", 1)], [])
    found = survey(pod(undecided=("a claim",)), occupancy)
    assert found == Survey(
        answer=Answer.UNKNOWN,
        places=0,
        places_exact=False,
        could=1,
        groups=(
            Group(nodes=1, obstacles=(Obstacle(reason=Reason.UNDECIDED, detail="a claim"),)),
            Group(nodes=1, obstacles=(Obstacle(reason=Reason.INSUFFICIENT, detail="cpu"),)),
        ),
        undecided=("a claim",),
    )


def test_what_is_undecided_does_not_matter_where_no_node_is_left():
    found = survey(pod(undecided=("a claim",)), Occupancy.of([node("a", 1)], []))
    assert (found.answer, found.undecided) == (Answer.NO, ())


def test_a_place_is_kept_for_pods_that_go_first():
    first = replace(pod(7), name="first", nominated="a")
    found = survey(pod(), Occupancy.of([node("a"), node("b")], [first]))
    lacking = Group(nodes=1, obstacles=(Obstacle(reason=Reason.INSUFFICIENT, detail="cpu"),))
    assert (found.places, found.could, set(found.groups)) == (4, 2, {Group(nodes=1, obstacles=()), lacking})
    small = replace(first, requests={"cpu": 3})
    assert survey(pod(), Occupancy.of([node("a"), node("b")], [small])).places == 2 + 4


def test_a_changed_node_is_seen_at_once():
    occupancy = Occupancy.of([node("a")], [])
    assert survey(pod(), occupancy).could == 1
    occupancy.put_node(node("a", 1))
    assert (survey(pod(), occupancy).could, survey(pod(), occupancy).answer) == (0, Answer.NO)


def test_many_sizes_of_pods_are_counted_right():
    occupancy = Occupancy.of([node("a", 200)], [])
    for _ in range(2):
        assert [survey(pod(cpu), occupancy).could for cpu in (*range(150), 201)] == [1] * 150 + [0]


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_a_survey_says_of_every_node_what_a_check_says(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.of(nodes, pods)
    found = survey(asking, occupancy)
    fits = [check(asking, each, occupancy=occupancy) for each in occupancy.nodes]
    assert {group.obstacles: group.nodes for group in found.groups} == Counter(each.obstacles for each in fits)
    answers = {each.answer for each in fits}
    assert found.answer == next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO)
    assert (found.places > 0) == (Answer.YES in answers)


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=4), ASKING)
def test_places_are_as_many_as_copies_can_be_put_one_by_one(nodes: list[Node], pods: list[Pod], asking: Pod):
    plain = replace(asking, demands=replace(asking.demands, affinity=(), anti_affinity=(), spread=(), undecided=()))
    occupancy = Occupancy.of(nodes, pods)
    found = survey(plain, occupancy)
    put = 0
    for each in occupancy.nodes:
        while check(plain, each, occupancy=occupancy).answer is Answer.YES:
            put += 1
            occupancy.put_pod(replace(plain, name=f"copy-{put}", node=each.name))
    assert found.places == put or not found.places_exact


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_could_is_what_fits_when_nothing_runs(nodes: list[Node], pods: list[Pod], asking: Pod):
    ungated = replace(asking, demands=replace(asking.demands, gated=False, affinity=(), spread=()))
    empty = Occupancy.of(nodes, [])
    fits = [check(ungated, each, occupancy=empty).answer is not Answer.NO for each in empty.nodes]
    assert survey(ungated, Occupancy.of(nodes, pods)).could == sum(fits)


@given(st.lists(NODES, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_whether_a_pod_fits_is_what_a_survey_says(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.of(nodes, pods)
    assert fits_somewhere(asking, occupancy) == (survey(asking, occupancy).answer is Answer.YES)


def test_of_nodes_whose_devices_nobody_can_count_no_place_is_sure():
    unsure = Group(nodes=1, obstacles=(UNCOUNTED,))
    wanted = replace(pod(), requests={"cpu": 2, GPU: 1})
    counted = node("b", allocatable={"cpu": 8, "pods": 10, GPU: 1})
    uncounted = node("a", uncounted=frozenset({GPU}))
    found = survey(wanted, Occupancy.of([uncounted, counted], []))
    assert (found.answer, found.places, found.places_exact, found.could) == (Answer.YES, 1, False, 2)
    found = survey(wanted, Occupancy.of([uncounted], []))
    assert found == Survey(
        answer=Answer.UNKNOWN,
        places=0,
        places_exact=False,
        could=1,
        groups=(unsure,),
        undecided=("devices of which nobody can tell how many are free",),
    )


def test_what_a_node_lacks_in_any_case_outweighs_what_nobody_can_count():
    wanted = replace(pod(9), requests={"cpu": 9, GPU: 1})
    found = survey(wanted, Occupancy.of([node("a", uncounted=frozenset({GPU}))], []))
    assert (found.answer, found.could) == (Answer.NO, 0)


def test_who_needs_no_device_does_not_care_how_many_there_are():
    found = survey(pod(), Occupancy.of([node("a", uncounted=frozenset({GPU}))], []))
    assert (found.answer, found.places, found.places_exact) == (Answer.YES, 4, True)
