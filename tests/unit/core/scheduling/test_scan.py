from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Node, Pod, PodAffinityTerm, PodConstraints, Taint
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.scheduling.results import Answer, ScanResult
from gpuspawner.core.scheduling.scan import check_node, find_fitting_sizes, fits_somewhere, scan_nodes
from tests.unit.core.pods_and_nodes import ASKING, NODES, OTHERS

GPU = "nvidia.com/gpu"
TAINT = Taint(key="gpu", effect="NoSchedule")
NEAR = PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))


def node(name: str, cpu: int = 8, **changes: Any) -> Node:
    return replace(Node(name=name, labels={"zone": "x"}, allocatable={"cpu": cpu, "pods": 10}), **changes)


def pod(cpu: int = 2, on: str | None = None, **constraints: Any) -> Pod:
    return Pod(name=f"p-{on}", namespace="n", node=on, requests={"cpu": cpu}, constraints=PodConstraints(**constraints))


def test_places_are_counted_on_all_nodes():
    occupancy = Occupancy.build([node("a"), node("b", 5), node("c", 1)], [pod(3, "a")])
    assert scan_nodes(pod(), occupancy) == ScanResult(
        answer=Answer.YES,
        places=2 + 2,
        places_exact=True,
        fit_if_empty=2,
    )


@pytest.mark.parametrize(
    ("limit", "expected"), [(0, (0, False)), (3, (3, False)), (4, (4, True)), (5, (4, True)), (None, (4, True))]
)
def test_places_are_counted_up_to_a_limit(limit: int | None, expected: tuple[int, bool]):
    found = scan_nodes(pod(), Occupancy.build([node("a"), node("b", taints=(TAINT,))], []), limit=limit)
    assert (found.places, found.places_exact, found.answer) == (*expected, Answer.YES)


def test_copies_that_have_a_say_in_each_others_place_are_not_counted():
    found = scan_nodes(pod(anti_affinity=(NEAR,)), Occupancy.build([node("a"), node("b")], []))
    assert (found.answer, found.places, found.places_exact) == (Answer.YES, 1, False)


def test_an_undecided_demand_leaves_no_sure_place():
    occupancy = Occupancy.build([node("a"), node("b", 1)], [])
    found = scan_nodes(pod(undecided=("a claim",)), occupancy)
    assert found == ScanResult(
        answer=Answer.UNKNOWN,
        places=0,
        places_exact=False,
        fit_if_empty=1,
        undecided=("a claim",),
    )


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_a_survey_says_of_every_node_what_a_check_says(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.build(nodes, pods)
    found = scan_nodes(asking, occupancy)
    fits = [check_node(asking, each, occupancy=occupancy) for each in occupancy.nodes]
    doubts = {each.detail for fit in fits for each in fit.obstacles if fit.answer is Answer.UNKNOWN}
    assert found.answer is Answer.NO or set(found.undecided) == doubts
    answers = {each.answer for each in fits}
    assert found.answer == next((each for each in (Answer.YES, Answer.UNKNOWN) if each in answers), Answer.NO)
    assert (found.places > 0) == (Answer.YES in answers)


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=4), ASKING)
def test_places_are_as_many_as_copies_can_be_put_one_by_one(nodes: list[Node], pods: list[Pod], asking: Pod):
    plain = replace(
        asking,
        constraints=replace(asking.constraints, affinity=(), anti_affinity=(), spread_constraints=(), undecided=()),
    )
    occupancy = Occupancy.build(nodes, pods)
    found = scan_nodes(plain, occupancy)
    put = 0
    for each in occupancy.nodes:
        while check_node(plain, each, occupancy=occupancy).answer is Answer.YES:
            put += 1
            occupancy.put_pod(replace(plain, name=f"copy-{put}", node=each.name))
    assert found.places == put or not found.places_exact


@given(st.lists(NODES, min_size=2, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_could_is_what_fits_when_nothing_runs(nodes: list[Node], pods: list[Pod], asking: Pod):
    ungated = replace(
        asking, constraints=replace(asking.constraints, is_gated=False, affinity=(), spread_constraints=())
    )
    empty = Occupancy.build(nodes, [])
    fits = [check_node(ungated, each, occupancy=empty).answer is not Answer.NO for each in empty.nodes]
    assert scan_nodes(ungated, Occupancy.build(nodes, pods)).fit_if_empty == sum(fits)


@given(st.lists(NODES, max_size=8), st.lists(OTHERS, max_size=6), ASKING)
def test_whether_a_pod_fits_is_what_a_survey_says(nodes: list[Node], pods: list[Pod], asking: Pod):
    occupancy = Occupancy.build(nodes, pods)
    assert fits_somewhere(asking, occupancy) == (scan_nodes(asking, occupancy).answer is Answer.YES)


@given(st.lists(NODES, max_size=8), st.lists(OTHERS, max_size=6), ASKING, st.lists(ASKING, max_size=6))
def test_several_sizes_at_once_fit_where_each_fits(nodes: list[Node], pods: list[Pod], asking: Pod, sizes: list[Pod]):
    occupancy = Occupancy.build(nodes, pods)
    own = replace(asking, preempts=False)
    fits = [fits_somewhere(replace(own, requests=each.requests), occupancy) for each in sizes]
    assert find_fitting_sizes(asking, sizes, occupancy=occupancy) == fits


def test_on_nodes_whose_devices_have_no_count_no_place_is_sure():
    wanted = replace(pod(), requests={"cpu": 2, GPU: 1})
    counted = node("b", allocatable={"cpu": 8, "pods": 10, GPU: 1})
    uncounted = node("a", uncounted=frozenset({GPU}))
    found = scan_nodes(wanted, Occupancy.build([uncounted, counted], []))
    assert (found.answer, found.places, found.places_exact, found.fit_if_empty) == (Answer.YES, 1, False, 2)
    found = scan_nodes(wanted, Occupancy.build([uncounted], []))
    assert found == ScanResult(
        answer=Answer.UNKNOWN,
        places=0,
        places_exact=False,
        fit_if_empty=1,
        undecided=("devices that can't be counted",),
    )
