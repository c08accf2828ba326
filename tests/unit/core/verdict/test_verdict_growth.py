"""Nodes that may be added: by the admin's settings, and by Karpenter's NodePools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import ScaleUp
from gpuspawner.core.cluster.model import (
    NodeSelectorTerm,
    Pod,
    ScalableNodePool,
    SelectorRequirement,
    Taint,
)
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict
from tests.unit.core.verdicts import (
    FULL,
    GPU,
    GROWING,
    ON_T4,
    PRODUCT,
    T4,
    added,
    judged,
    node,
    node_pool,
    nodes,
    pod,
    pods,
    said,
)


def test_a_pool_that_is_as_large_as_it_may_be_grows_again_some_day():
    terms = (NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=("b",)),)),)
    wanted = pod(constraints=replace(ON_T4, volume_terms=(terms,)))
    full = replace(T4, scale_up=ScaleUp(max_nodes=1, gpus_per_node=4, minutes=6))
    elsewhere = node(labels={PRODUCT: "T4", "zone": "a"})
    assert judged(wanted, elsewhere, gpu=full).outcome is Outcome.UNKNOWN
    assert judged(pod(gpus=5), elsewhere, gpu=full).outcome is Outcome.NEVER


def test_a_new_node_may_be_added():
    assert judged(pod(), node(), pods=FULL, gpu=GROWING) == Verdict(
        outcome=Outcome.AFTER_SCALE_UP, pool="T4", minutes=6, ahead=0, reason="All 4 are in use.", age_s=1.0
    )


def test_new_nodes_may_all_be_spoken_for_while_there_is_none():
    ahead = tuple(pod(str(number), 4) for number in range(2))
    assert said(pod(), pods=ahead, gpu=GROWING) == (
        "Will wait: all nodes that can be added are already taken. 2 servers are ahead of yours."
    )


def test_the_quickest_pool_is_named():
    more = tuple(
        ScalableNodePool(name=name, minutes=minutes, node_allocatable={GPU: 4}, max_new_nodes=1)
        for name, minutes in (("slow", 9.0), ("quick", 3.0), ("unknown", None))
    )
    found = judged(pod(), node(), pods=FULL, gpu=GROWING, scalable_pools=more)
    assert (found.pool, found.minutes) == ("quick", 3.0)


class Asked(dict[str, int]):
    """Amounts that count how often they are read."""

    times = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.times += 1
        return super().get(key, default)


def test_those_ahead_are_gone_through_for_no_pool_after_the_first_with_room():
    waiting = tuple(pod(str(number)) for number in range(1000))
    later = Asked({GPU: 4})
    more = (
        ScalableNodePool(name="slow", minutes=9.0, node_allocatable=later, max_new_nodes=300),
        ScalableNodePool(name="quick", minutes=3.0, node_allocatable={GPU: 4}, max_new_nodes=300),
    )
    assert judged(pod(), pods=waiting, scalable_pools=more).pool == "quick"
    assert later.times < len(waiting)


def test_a_pool_without_nodes_may_add_one_that_fits():
    found = judged(pod(), scalable_pools=(node_pool(),))
    assert found == Verdict(outcome=Outcome.AFTER_SCALE_UP, pool="np", is_sure=False, ahead=0, age_s=1.0)
    assert format_verdict(found) == "Starts after a new node is added, if a large enough one is available."


def test_a_pool_that_has_made_such_a_node_may_add_another():
    labels = {PRODUCT: "T4", "karpenter.sh/nodepool": "np", "node.kubernetes.io/instance-type": "g4dn.xlarge"}
    found = judged(pod(), node(labels=labels), pods=FULL, scalable_pools=(node_pool(),))
    assert (found.outcome, found.pool, found.is_sure) == (Outcome.AFTER_SCALE_UP, "np", True)
    assert format_verdict(found) == "Starts after a new node is added."


@pytest.mark.parametrize(("free", "outcome"), [(0, Outcome.WAITS), (1, Outcome.AFTER_SCALE_UP)])
def test_a_pool_at_its_limit_is_waited_for(free: int, outcome: Outcome):
    grown = node_pool(limits={GPU: 4 + free}, used={GPU: 4})
    assert judged(pod(), node(), pods=FULL, scalable_pools=(grown,)).outcome is outcome


def test_a_pool_whose_limit_others_use_up_is_no_reason_to_refuse():
    grown = node_pool(limits={"cpu": 64_000}, used={"cpu": 64_000})
    assert (
        said(pod(), scalable_pools=(grown,))
        == "Will wait: no more nodes can be added right now. You'd be next in line."
    )


@pytest.mark.parametrize(
    ("wanted", "grown", "sentence"),
    [
        (pod(gpus=5), node_pool(limits={GPU: 4}), "Can't start: no node has 5 × T4; the most on one node is 4."),
        (pod(), node_pool(limits={"cpu": 2000}), "Can't start: no node with a T4 has 4 CPUs; the largest has 2."),
        (pod(), node_pool(product=("L4",)), "Can't start: there is no T4 in the cluster."),
        (
            pod(),
            node_pool(taints=(Taint(key="team", effect="NoSchedule"),)),
            "Can't start: there is no T4 in the cluster.",
        ),
    ],
)
def test_what_no_pool_could_ever_add_never_starts(wanted: Pod, grown: ScalableNodePool, sentence: str):
    assert said(wanted, scalable_pools=(grown,)) == sentence


def test_a_pool_of_which_too_little_is_known_leaves_it_open():
    grown = node_pool(is_reliable=False)
    assert (
        said(pod(), scalable_pools=(grown,))
        == "Availability unknown: the hub can't predict whether a new node would be suitable."
    )


def test_where_node_pools_could_not_be_read_nothing_is_impossible():
    assert said(pod(gpus=5), node(), scalable_pools=None) == (
        "No such node is running: no node has 5 × T4; the most on one node is 4. One may be added."
    )


def test_node_pools_that_could_not_be_read_may_add_what_the_admin_leaves_out():
    assert judged(pod(gpus=5), node(), gpu=GROWING, scalable_pools=None).outcome is Outcome.UNKNOWN


L4 = replace(T4, slug="l4", display_name="L4", match={PRODUCT: ("L4",)})


def test_what_the_admin_says_of_the_time_holds_for_any_new_node_of_the_type():
    pods = (*FULL, pod("c", 4, on="m"))
    found = judged(pod(), node(), node("m"), pods=pods, gpu=GROWING, scalable_pools=(node_pool(),))
    assert (found.outcome, found.pool, found.minutes) == (Outcome.AFTER_SCALE_UP, "np", 6)


@given(nodes, pods, st.integers(1, 6), added)
def test_what_may_be_added_makes_nothing_impossible_and_nothing_start_at_once(
    drawn: list[dict[str, Any]], others: list[Pod], gpus: int, scalable_pools: tuple[ScalableNodePool, ...] | None
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    without, beside = (
        judged(pod(gpus=gpus), *own, pods=named, scalable_pools=each).outcome for each in ((), scalable_pools)
    )
    assert without is Outcome.NEVER or beside is not Outcome.NEVER
    assert (without is Outcome.NOW) == (beside is Outcome.NOW)
