"""Whether a pod starts now however kube-scheduler places the pods that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Node, Pod, PodAffinityTerm, PodConstraints
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, starts_before_rivals, starts_now

GPU = "nvidia.com/gpu"
GATED = PodConstraints(is_gated=True)


def node(name: str, cpu: int = 8000, **changes: Any) -> Node:
    return replace(Node(name=name, allocatable={"cpu": cpu, "pods": 10}), **changes)


def pod(name: str = "mine", cpu: int = 4000, **changes: Any) -> Pod:
    return replace(Pod(name=name, namespace="n", node=None, requests={"cpu": cpu}), **changes)


def inventory(*nodes: Node, pods: tuple[Pod, ...] = (), age_s: float | None = 1.0) -> Inventory:
    return Inventory(nodes=nodes, occupancy=Occupancy.build(nodes, pods), age_s=age_s)


@pytest.mark.parametrize(
    ("rivals", "expected"),
    [
        pytest.param([], True, id="none"),
        pytest.param([pod("a")], True, id="room for both"),
        pytest.param([pod("a"), pod("b")], False, id="no room for the third"),
        pytest.param([pod("a", 8000)], False, id="one that fills the node"),
        pytest.param([pod("a", 8001)], True, id="one too large for the node"),
        pytest.param([pod("a"), pod("b", requests={"cpu": 4000, GPU: 1})], True, id="one that needs a GPU"),
        pytest.param([pod("a"), pod("b", priority=-10)], True, id="one of lower priority"),
        pytest.param([pod("a"), pod("b", constraints=GATED)], True, id="one that another system holds back"),
        pytest.param([pod("a"), pod("b", terminating=True)], True, id="one that is being deleted"),
        pytest.param([pod("a"), pod("mine")], True, id="the pod itself"),
        pytest.param([pod(f"p{size}", 100 + size) for size in range(100)], False, id="many sizes"),
        pytest.param([pod(f"p{size}", 8001 + size) for size in range(100)], True, id="many that are too large"),
    ],
)
def test_what_waits_takes_its_room_first(rivals: list[Pod], expected: bool):
    assert starts_before_rivals(pod(), inventory(node("a"), pods=tuple(rivals))) is expected


def test_room_on_several_nodes_counts_together():
    waiting = (pod("a"), pod("b"), pod("c"))
    found = [starts_before_rivals(pod(), inventory(*nodes, pods=waiting)) for nodes in ([node("a")], TWO)]
    assert found == [False, True]


TWO = [node("a"), node("b")]


def test_a_rival_that_keeps_others_away_may_close_every_node():
    alone = PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))
    rival = pod("a", 100, constraints=PodConstraints(anti_affinity=(alone,)))
    assert not starts_before_rivals(pod(), inventory(*TWO, pods=(rival,)))


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(Inventory(), id="no nodes"),
        pytest.param(Inventory(nodes=(node("a"),), age_s=1.0), id="no pods"),
        pytest.param(inventory(node("a"), age_s=MAX_DATA_AGE_S + 1), id="stale"),
    ],
)
def test_it_is_not_assumed_of_a_cluster_that_is_not_known(known: Inventory):
    assert not starts_before_rivals(pod(), known)


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
    st.lists(st.integers(1, 8), max_size=4),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_in_whatever_order_and_place_rivals_are_bound_the_pod_still_fits(
    sizes: list[int], rivals: list[int], own: int, random: Any
):
    nodes = [node(f"n{number}", size * 1000) for number, size in enumerate(sizes)]
    waiting = tuple(pod(f"p{number}", size * 1000) for number, size in enumerate(rivals))
    if not starts_before_rivals(pod(cpu=own * 1000), inventory(*nodes, pods=waiting)):
        return
    free = [size * 1000 for size in sizes]
    for rival in random.sample(waiting, len(waiting)):
        if possible := [index for index, amount in enumerate(free) if amount >= rival.requests["cpu"]]:
            free[random.choice(possible)] -= rival.requests["cpu"]
    assert max(free) >= own * 1000


def test_room_that_only_a_preemption_makes_keeps_no_server_off_other_nodes():
    """A required node would have kube-scheduler end a pod although another node may be free."""
    low = Pod(name="low", namespace="n", node="a", requests={"cpu": 8000}, priority=-10)
    has = {"cpu": 8000, "pods": 10}
    known = Inventory(occupancy=Occupancy.build([Node(name="a", allocatable=has, capacity=has)], [low]), age_s=1.0)
    own = Pod(name="own", namespace="n", node=None, requests={"cpu": 1000})
    assert (starts_now(own, known), starts_before_rivals(own, known)) == (True, False)
