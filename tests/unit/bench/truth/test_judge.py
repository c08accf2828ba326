"""Statements and events make the faults that are counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.truth.facts import View
from bench.truth.judge import Event, Fate, Fault, Said, find_faults, find_faults_alone, is_hedged, is_worth_trying
from bench.truth.queue_facts import QueueAnswer
from bench.truth.suite import Tally, make_result
from bench.truth.vocabulary import PRODUCT
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.bench.truth.test_facts import T4, gpu_node, gpu_pod
from tests.unit.core.kueue_workloads import EXCEEDS_ALL_FLAVORS
from tests.unit.core.kueue_workloads import IN_USE as IN_USE_OF_KUEUE

WORDS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
WAITED = Event(fate=Fate.WAITED, words=WORDS)
STARTED = Event(fate=Fate.STARTED, node="a")
NEW_NODE = Event(fate=Fate.NEW_NODE, node="b", words=WORDS)
FULL = View([gpu_node()], [gpu_pod("x", 2, on="a"), gpu_pod("y")])
IN_USE = "All 2 are in use."


def said(outcome: Outcome, *, sees_pools: bool = True, **fields: Any) -> Said:
    verdict = Verdict(outcome=outcome, **fields)
    return Said(verdict=verdict, pod=gpu_pod(), labels=T4, count=1, sees_pools=sees_pools)


@pytest.mark.parametrize(
    ("what", "event", "faults"),
    [
        pytest.param(said(Outcome.NOW), STARTED, [Fault.PEER], id="now, starts"),
        pytest.param(said(Outcome.NOW), WAITED, [Fault.NOT_NOW], id="now, waits"),
        pytest.param(said(Outcome.NOW), NEW_NODE, [Fault.NOT_NOW], id="now, after a node"),
        pytest.param(said(Outcome.NEVER), WAITED, [], id="never, waits"),
        pytest.param(said(Outcome.NEVER), NEW_NODE, [Fault.NOT_NEVER, Fault.REFUSED_NEW_NODE], id="never, node comes"),
        pytest.param(said(Outcome.UNKNOWN), NEW_NODE, [], id="unknown"),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=1), WAITED, [], id="waits"),
        pytest.param(
            said(Outcome.WAITS, reason=IN_USE, ahead=1), STARTED, [Fault.REASON, Fault.PEER], id="waits, starts"
        ),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=1), NEW_NODE, [Fault.REASON], id="waits, node comes"),
        pytest.param(
            said(Outcome.WAITS, reason=IN_USE, ahead=1, sees_pools=False), NEW_NODE, [], id="waits, node comes unseen"
        ),
        pytest.param(
            said(Outcome.WAITS, reason="All 3 are in use.", ahead=1), WAITED, [Fault.REASON], id="wrong number"
        ),
        pytest.param(said(Outcome.WAITS, reason="Only 1 of 2 is free.", ahead=1), WAITED, [Fault.REASON], id="few"),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=0), WAITED, [Fault.PLACE], id="wrong place"),
        pytest.param(said(Outcome.WAITS, reason=IN_USE), WAITED, [Fault.PLACE], id="no place"),
        pytest.param(
            said(Outcome.WAITS, reason=IN_USE, ahead=1),
            Event(fate=Fate.WAITED, words="0/1 nodes are available: 1 Insufficient cpu."),
            [Fault.REASON],
            id="the scheduler says another",
        ),
        pytest.param(said(Outcome.AFTER_SCALE_UP, reason=IN_USE, ahead=1), NEW_NODE, [], id="node comes"),
        pytest.param(said(Outcome.AFTER_SCALE_UP, ahead=1), NEW_NODE, [], id="node comes, no reason"),
        pytest.param(said(Outcome.AFTER_SCALE_UP, ahead=1), WAITED, [Fault.REASON], id="no node comes"),
        pytest.param(said(Outcome.AFTER_SCALE_UP, ahead=1, is_sure=False), WAITED, [], id="no node, was not sure"),
    ],
)
def test_each_way_to_be_wrong_is_found(what: Said, event: Event, faults: list[Fault]):
    assert [fault for fault, _ in find_faults(what, event, FULL)] == faults


QUOTA = "The quota of the queue people is in use."


def held(words: str = IN_USE_OF_KUEUE, position: int | None = 2) -> Event:
    return Event(fate=Fate.WAITED, kueue=QueueAnswer(words=words, position=position))


def queued(reason: str, ahead: int | None = 2, *, outcome: Outcome = Outcome.WAITS) -> Said:
    return said(outcome, reason=reason, ahead=ahead, is_queued=True)


def admitted(product: str) -> Event:
    pod = gpu_pod()
    pod["spec"]["nodeSelector"] = {PRODUCT: product}
    return replace(WAITED, pod=pod)


@pytest.mark.parametrize(
    ("what", "event", "faults"),
    [
        pytest.param(queued(QUOTA), held(), [], id="quota in use"),
        pytest.param(queued(QUOTA), held(""), [], id="quota in use, behind another"),
        pytest.param(queued(QUOTA, 0), held("", 0), [Fault.REASON], id="quota in use, no word of it"),
        pytest.param(queued(QUOTA), held(EXCEEDS_ALL_FLAVORS), [Fault.REASON], id="quota exceeded"),
        pytest.param(queued(QUOTA), WAITED, [Fault.REASON], id="quota in use, but admitted"),
        pytest.param(queued(QUOTA), STARTED, [Fault.REASON, Fault.PEER], id="quota in use, but starts"),
        pytest.param(queued(QUOTA, 1), held(), [Fault.PLACE], id="wrong place"),
        pytest.param(queued(QUOTA, None), held(), [Fault.PLACE], id="no place"),
        pytest.param(queued(QUOTA, 1, outcome=Outcome.UNKNOWN), held(), [Fault.PLACE], id="unknown, wrong place"),
        pytest.param(queued(QUOTA, None, outcome=Outcome.UNKNOWN), held(), [], id="unknown, no place"),
        pytest.param(queued("Too much.", None, outcome=Outcome.NEVER), held(), [], id="never"),
        pytest.param(said(Outcome.NOW), held(), [Fault.NOT_NOW], id="now, but held"),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=1), held(), [Fault.REASON], id="nodes full, but held"),
        pytest.param(
            said(Outcome.AFTER_SCALE_UP, ahead=1, is_sure=False), held(), [Fault.REASON], id="node comes, but held"
        ),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=1), admitted("Tesla-T4"), [], id="nodes full, admitted"),
        pytest.param(
            said(Outcome.WAITS, reason=IN_USE, ahead=1),
            admitted("NVIDIA-L4"),
            [Fault.REASON, Fault.PLACE],
            id="admitted to other nodes",
        ),
    ],
)
def test_the_queue_has_to_hold_a_pod_for_the_reason_and_at_the_place_that_was_said(
    what: Said, event: Event, faults: list[Fault]
):
    assert [fault for fault, _ in find_faults(what, event, FULL)] == faults


def alone(**spec: Any) -> dict[str, Any]:
    pod = gpu_pod()
    pod["spec"].update(spec)
    return pod


HELD_ALONE = alone(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])


@pytest.mark.parametrize(
    ("what", "pod", "faults"),
    [
        pytest.param(said(Outcome.NEVER), alone(nodeName="a"), [Fault.NOT_NEVER], id="never, starts"),
        pytest.param(said(Outcome.NEVER), alone(), [], id="never, refused"),
        pytest.param(said(Outcome.NEVER), HELD_ALONE, [], id="never, held"),
        pytest.param(said(Outcome.WAITS), alone(nodeName="a"), [], id="waits, starts"),
        pytest.param(said(Outcome.WAITS), alone(), [Fault.REASON], id="waits, refused"),
        pytest.param(said(Outcome.WAITS), alone(nodeSelector={PRODUCT: "NVIDIA-L4"}), [], id="waits, sent elsewhere"),
        pytest.param(queued(QUOTA), HELD_ALONE, [Fault.REASON], id="queued, held"),
        pytest.param(queued(QUOTA), alone(), [], id="queued, admitted"),
    ],
)
def test_a_pod_that_is_alone_shows_whether_it_only_had_to_wait(what: Said, pod: dict[str, Any], faults: list[Fault]):
    assert [fault for fault, _ in find_faults_alone(what.verdict, pod, View([gpu_node()], []))] == faults


def test_what_waits_is_tried_alone_where_it_has_a_node_or_only_the_queue_held_it():
    some, none = View([gpu_node()], []), View([], [])
    cases = [said(Outcome.WAITS), queued(QUOTA), said(Outcome.NEVER), said(Outcome.AFTER_SCALE_UP)]
    assert [is_worth_trying(each, some) for each in cases] == [True, True, True, False]
    assert [is_worth_trying(each, none) for each in cases] == [False, True, True, False]


def test_a_node_that_was_not_promised_for_sure_is_counted_apart():
    unsure = said(Outcome.AFTER_SCALE_UP, is_sure=False)
    assert [is_hedged(unsure, event) for event in (WAITED, NEW_NODE)] == [True, False]
    assert not is_hedged(said(Outcome.AFTER_SCALE_UP), WAITED)
    assert not is_hedged(unsure, held())


def tally(*faults: Fault, outcome: Outcome, spawns: int = 200) -> Tally:
    found = Tally()
    found.outcomes[outcome] = spawns
    found.with_gpus = spawns
    for fault in faults:
        found.blame(fault, "")
    return found


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        pytest.param(tally(outcome=Outcome.NOW), True, id="all right"),
        pytest.param(tally(Fault.NOT_NOW, outcome=Outcome.NOW), True, id="one in 200"),
        pytest.param(tally(Fault.NOT_NOW, Fault.NOT_NOW, outcome=Outcome.NOW), False, id="two in 200"),
        pytest.param(tally(Fault.NOT_NEVER, outcome=Outcome.NEVER), False, id="never started"),
        pytest.param(tally(Fault.REASON, Fault.REASON, outcome=Outcome.WAITS), True, id="two reasons in 200"),
        pytest.param(tally(*[Fault.REASON] * 3, outcome=Outcome.AFTER_SCALE_UP), False, id="three reasons in 200"),
        pytest.param(tally(Fault.PLACE, outcome=Outcome.WAITS), False, id="place"),
        pytest.param(tally(*[Fault.PEER] * 99, outcome=Outcome.NOW), True, id="the peer is wrong"),
    ],
)
def test_the_budgets_are_for_shares_of_the_verdicts_of_their_kind(found: Tally, holds: bool):
    assert make_result(found, unsettled=0, seed=1, took_s=1.0).holds() is holds


def test_the_unknown_share_of_queued_servers_is_a_figure_of_its_own():
    found = tally(outcome=Outcome.NOW)
    found.queued.update({Outcome.NOW: 3, Outcome.UNKNOWN: 1})
    values = make_result(found, unsettled=0, seed=1, took_s=1.0).values
    assert (values["queued"], values["queued_unknown_percent"]) == (4, 25.0)


def test_the_peer_is_wrong_in_a_share_of_the_spawns_with_gpus():
    values = make_result(tally(Fault.PEER, outcome=Outcome.NOW), unsettled=0, seed=1, took_s=1.0).values
    assert values["sum_of_free_wrong_percent"] == 0.5
