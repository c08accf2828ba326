from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import GPUType, ScaleUp
from gpuspawner.core.cluster.decode import decode_pod
from gpuspawner.core.cluster.model import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    ScalableNodePool,
    SelectorRequirement,
    Taint,
)
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict, predict_verdict, starts_now
from gpuspawner.core.verdict.wording import format_verdict
from tests.unit.core.verdicts import (
    FULL,
    GIB,
    GPU,
    GROWING,
    ON_T4,
    PRODUCT,
    T4,
    added,
    inventory,
    judged,
    node,
    nodes,
    pod,
    pods,
    said,
)


def test_a_pod_that_fits_starts_now_with_places_left():
    assert judged(pod(), node(), node("m"), pods=FULL) == Verdict(outcome=Outcome.NOW, places=4, age_s=1.0)


def test_more_places_than_any_user_needs_are_not_counted():
    found = judged(pod(), node(gpus=200, allocatable={"cpu": 10**9, "memory": 2**60, "pods": 500, GPU: 200}))
    assert (found.outcome, found.places, found.places_exact) == (Outcome.NOW, 100, False)


def test_a_pod_waits_when_all_are_in_use():
    waiting = (pod("c"), pod("d", 4), pod("e", constraints=PodConstraints(is_gated=True)))
    assert judged(pod(), node(), pods=(*FULL, *waiting)) == Verdict(
        outcome=Outcome.WAITS, ahead=2, reason="All 4 are in use.", age_s=1.0
    )


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (pod(gpus=5), "Can't start: no node has 5 × T4; the most on one node is 4."),
        (
            replace(pod(), requests={GPU: 1, "cpu": 96_000}),
            "Can't start: no node with a T4 has 96 CPUs; the largest has 64.",
        ),
        (
            pod(constraints=PodConstraints(node_selector={"x": "y"})),
            "Can't start: no node with a T4 is of the kind that servers like this one use.",
        ),
    ],
)
def test_what_no_node_would_ever_take_never_starts(wanted: Pod, sentence: str):
    assert said(wanted, node()) == sentence


@pytest.mark.parametrize("gpus", [4, 8])
def test_what_a_new_node_would_take_is_not_never(gpus: int):
    big = replace(GROWING, scale_up=ScaleUp(max_nodes=2, gpus_per_node=gpus, minutes=6))
    assert (judged(pod(gpus=8), node(), gpu=big).outcome is Outcome.NEVER) == (gpus == 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"unschedulable": True},
        {"taints": (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)},
        {"allocatable": {"cpu": 64_000, "memory": 256 * GIB, "pods": 10, GPU: 0}},
    ],
)
def test_a_node_out_of_service_may_come_back(changes: dict[str, Any]):
    assert judged(pod(), node(**changes)).outcome is Outcome.WAITS


def test_a_node_reserved_for_others_does_not_come_back():
    assert said(pod(), node(taints=(Taint(key="team", effect="NoSchedule"),))) == (
        "Can't start: every node with a T4 is reserved for others."
    )


def test_without_nodes_all_is_unknown():
    found = predict_verdict(pod(), Inventory(reason="The hub may not list nodes."), gpu=T4)
    assert format_verdict(found) == "Availability unknown: the hub may not list nodes."
    assert predict_verdict(pod(), Inventory(), gpu=T4).reason == "The hub can't read the cluster's nodes."


@pytest.mark.parametrize(("gpus", "outcome"), [(1, Outcome.UNKNOWN), (5, Outcome.NEVER)])
def test_without_pods_only_never_is_certain(gpus: int, outcome: Outcome):
    assert (
        predict_verdict(pod(gpus=gpus), Inventory(nodes=(node(),), age_s=1.0), gpu=T4, new_nodes=False).outcome
        is outcome
    )


@pytest.mark.parametrize("age_s", [MAX_DATA_AGE_S + 1, None])
@pytest.mark.parametrize("gpus", [1, 5])
def test_old_data_is_not_relied_on(age_s: float | None, gpus: int):
    found = predict_verdict(pod(gpus=gpus), inventory(node(), age_s=age_s), gpu=T4, new_nodes=False)
    assert (found.outcome, found.age_s) == (Outcome.UNKNOWN, age_s)


RESERVED = (Taint(key="team", effect="NoSchedule"),)


def draft(gpus: int = 1, **spec: Any) -> Pod:
    """Return a pod as the hub sends it."""
    resources = {"limits": {GPU: str(gpus)}} if gpus else {"requests": {"cpu": "1"}}
    containers = {"containers": [{"name": "notebook", "resources": resources}]}
    found = decode_pod({"metadata": {"name": "mine", "namespace": "s"}, "spec": {**containers, **spec}})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        pytest.param(draft(), node(taints=RESERVED), Outcome.NEVER, id="no class, reserved node"),
        pytest.param(draft(runtimeClassName="n"), node(taints=RESERVED), Outcome.UNKNOWN, id="reserved node"),
        pytest.param(draft(runtimeClassName="n"), node(unschedulable=True), Outcome.UNKNOWN, id="cordoned node"),
        pytest.param(draft(runtimeClassName="n"), node(gpus=0, taints=RESERVED), Outcome.UNKNOWN, id="silent plugin"),
        pytest.param(draft(runtimeClassName="n"), node(), Outcome.UNKNOWN, id="node selector or overhead may follow"),
        pytest.param(draft(5, runtimeClassName="n"), node(taints=RESERVED), Outcome.NEVER, id="no node is so large"),
        pytest.param(
            draft(runtimeClassName="n", nodeSelector={"a": "b"}), node(), Outcome.NEVER, id="no node is selected"
        ),
    ],
)
@pytest.mark.parametrize("gpu", [T4, None], ids=["GPU type", "no GPU type"])
def test_what_a_runtime_class_adds_is_in_doubt(wanted: Pod, there: Node, gpu: GPUType | None, expected: Outcome):
    assert predict_verdict(wanted, inventory(there), gpu=gpu, new_nodes=False).outcome is expected


def test_a_server_that_fits_no_node_for_now_waits_whatever_its_runtime_class_adds():
    found = judged(draft(runtimeClassName="n"), node(), pods=FULL)
    assert (found.outcome, found.reason) == (Outcome.WAITS, "All 4 are in use.")


def test_an_undecided_demand_is_unknown_and_never_now():
    wanted = pod(constraints=replace(ON_T4, undecided=("a resource claim",)))
    assert said(wanted, node()) == "Availability unknown: it depends on a resource claim."


def test_an_undecided_demand_does_not_hide_an_impossible_one():
    wanted = pod(gpus=5, constraints=replace(ON_T4, undecided=("a resource claim",)))
    assert judged(wanted, node()).outcome is Outcome.NEVER


def test_a_pod_behind_a_gate_is_in_other_hands():
    wanted = pod(gpus=9, constraints=replace(ON_T4, is_gated=True))
    assert said(wanted, node()) == "Availability unknown: another system decides when it may start."


def test_a_new_node_that_might_do_is_no_promise():
    terms = (NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=("a",)),)),)
    wanted = pod(constraints=replace(ON_T4, volume_terms=(terms,)))
    assert judged(wanted, gpu=GROWING).outcome is Outcome.UNKNOWN
    assert judged(wanted, node(labels={PRODUCT: "T4", "zone": "b"}), gpu=GROWING).outcome is Outcome.UNKNOWN


def test_other_servers_may_keep_a_pod_away():
    apart = PodAffinityTerm(topology_key=PRODUCT, selector=(), namespaces=frozenset({"s"}))
    wanted = pod(constraints=replace(ON_T4, anti_affinity=(apart,)))
    found = said(wanted, node(), pods=(pod("a", 1, on="n"),))
    assert found == "Will wait: other servers keep it off the nodes with a free T4. You'd be next in line."


def test_a_pod_that_asks_for_other_nodes_than_its_types_waits_for_those():
    wanted = pod(constraints=PodConstraints(node_selector={PRODUCT: "other"}))
    assert said(wanted, node(labels={PRODUCT: "other"}), pods=FULL) == (
        "Will wait: all suitable nodes are taken. You'd be next in line."
    )


def test_a_server_without_a_gpu_is_judged_as_well():
    wanted = replace(pod(), requests={"cpu": 32_000}, constraints=PodConstraints())
    busy = replace(pod("a", on="n"), requests={"cpu": 60_000})
    found = predict_verdict(wanted, inventory(node(), pods=(busy,)))
    assert format_verdict(found) == "Will wait: no node has 32 CPUs left; the most is 4. You'd be next in line."


@given(
    nodes,
    pods,
    st.integers(1, 6),
    st.sampled_from([T4, GROWING]),
    st.sampled_from([(1.0, False), (1.0, True), (90.0, False)]),
    added,
)
def test_there_is_always_one_sentence_that_names_no_node_and_no_pod(
    drawn: list[dict[str, Any]],
    others: list[Pod],
    gpus: int,
    gpu: GPUType,
    known_how: tuple[float, bool],
    scalable_pools: tuple[ScalableNodePool, ...] | None,
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=f"stranger-{number}") for number, each in enumerate(others))
    age_s, new_nodes = known_how
    known = inventory(*own, pods=named, age_s=age_s, scalable_pools=scalable_pools)
    found = predict_verdict(pod(gpus=gpus), known, gpu=gpu, new_nodes=new_nodes)
    text = format_verdict(found)
    assert text.endswith(".")
    assert ".." not in text
    assert [name for name in (*(each.name for each in own), "stranger", "nvidia.com") if name in text] == []
    if age_s > 60:
        assert found.outcome in (Outcome.UNKNOWN, Outcome.NEVER)


@given(nodes, pods, st.integers(1, 6), st.sampled_from([1.0, 90.0, None]))
def test_starting_now_is_what_the_verdict_says(
    drawn: list[dict[str, Any]], others: list[Pod], gpus: int, age_s: float | None
):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    known = inventory(*own, pods=named, age_s=age_s)
    assert starts_now(pod(gpus=gpus), known) == (predict_verdict(pod(gpus=gpus), known, gpu=T4).outcome is Outcome.NOW)


@pytest.mark.parametrize("unread", [Inventory(age_s=1.0), Inventory(nodes=(node(),), age_s=1.0)])
def test_unread_data_never_means_now(unread: Inventory):
    assert not starts_now(pod(), unread)


@given(nodes, pods, st.integers(1, 6))
def test_never_is_said_whatever_pods_run_there(drawn: list[dict[str, Any]], others: list[Pod], gpus: int):
    own = [node(f"n{number}", **changes) for number, changes in enumerate(drawn)]
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(others))
    empty, busy = (predict_verdict(pod(gpus=gpus), inventory(*own, pods=some), gpu=T4).outcome for some in ((), named))
    assert (empty is Outcome.NEVER) == (busy is Outcome.NEVER)


PLACEHOLDERS = (pod("low", 3, on="n", priority=-10), pod("user", 1, on="n"), pod("next-low", 4, priority=-10))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param({}, "Starts now: room for 3 like this.", id="placeholders-are-room"),
        pytest.param(
            {"priority": -10}, "Will wait: all 4 are in use. 1 server is ahead of yours.", id="the-same-priority"
        ),
        pytest.param({"priority": 5}, "Starts now: room for 4 like this.", id="servers-of-other-users-are-room"),
        pytest.param({"preempts": False}, "Will wait: all 4 are in use. You'd be next in line.", id="preempts-no-pod"),
        pytest.param(
            {"preempts": None},
            "Availability unknown: it depends on the priority that the cluster gives the server.",
            id="unknown-priority",
        ),
    ],
)
def test_room_that_kube_scheduler_makes_by_a_preemption_counts(own: dict[str, Any], expected: str):
    assert said(pod(**own), node(), pods=PLACEHOLDERS) == expected


def test_a_wait_is_explained_without_what_placeholders_hold():
    assert said(pod(gpus=4), node(), pods=PLACEHOLDERS) == "Will wait: only 3 of 4 are free. You'd be next in line."


@given(pods, st.integers(0, 4), st.integers(0, 64), st.integers(0, 9))
def test_placeholders_and_no_placeholders_lead_to_the_same_verdict(
    others: list[Pod], gpus: int, cpu: int, placeholders: int
):
    own = replace(pod(gpus=gpus), requests={GPU: gpus, "cpu": cpu * 1000})
    named = tuple(
        replace(each, name=str(number), priority=-10 if number < placeholders else 0)
        for number, each in enumerate(others)
    )
    users = tuple(each for each in named if each.priority == 0)
    three = [node(f"n{number}") for number in range(3)]
    assert judged(own, *three, pods=named) == judged(own, *three, pods=users)
