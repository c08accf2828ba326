"""What was said and what happened make the faults that are counted."""

from __future__ import annotations

from typing import Any

import pytest

from bench.truth.facts import View
from bench.truth.judge import Event, Fate, Fault, Said, find_faults, is_hedged
from bench.truth.suite import Tally, make_result
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.bench.truth.test_facts import T4, gpu_node, gpu_pod

WORDS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
WAITED = Event(fate=Fate.WAITED, words=WORDS)
STARTED = Event(fate=Fate.STARTED, node="a")
NEW_NODE = Event(fate=Fate.NEW_NODE, node="b", words=WORDS)
FULL = View([gpu_node()], [gpu_pod("x", 2, on="a"), gpu_pod("y")])
IN_USE = "All 2 are in use."


def said(outcome: Outcome, **fields: Any) -> Said:
    return Said(verdict=Verdict(outcome=outcome, **fields), pod=gpu_pod(), labels=T4, count=1)


@pytest.mark.parametrize(
    ("what", "event", "faults"),
    [
        pytest.param(said(Outcome.NOW), STARTED, [Fault.PEER], id="now, starts"),
        pytest.param(said(Outcome.NOW), WAITED, [Fault.NOT_NOW], id="now, waits"),
        pytest.param(said(Outcome.NOW), NEW_NODE, [Fault.NOT_NOW], id="now, after a node"),
        pytest.param(said(Outcome.NEVER), WAITED, [], id="never, waits"),
        pytest.param(said(Outcome.NEVER), NEW_NODE, [Fault.NOT_NEVER], id="never, starts"),
        pytest.param(said(Outcome.UNKNOWN), NEW_NODE, [], id="unknown"),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=1), WAITED, [], id="waits"),
        pytest.param(
            said(Outcome.WAITS, reason=IN_USE, ahead=1), STARTED, [Fault.REASON, Fault.PEER], id="waits, starts"
        ),
        pytest.param(said(Outcome.WAITS, reason=IN_USE, ahead=1), NEW_NODE, [Fault.REASON], id="waits, node comes"),
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


def test_a_node_that_was_not_promised_for_sure_is_counted_apart():
    unsure = said(Outcome.AFTER_SCALE_UP, is_sure=False)
    assert [is_hedged(unsure, event) for event in (WAITED, NEW_NODE)] == [True, False]
    assert not is_hedged(said(Outcome.AFTER_SCALE_UP), WAITED)


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


def test_the_peer_is_wrong_in_a_share_of_the_spawns_with_gpus():
    values = make_result(tally(Fault.PEER, outcome=Outcome.NOW), unsettled=0, seed=1, took_s=1.0).values
    assert values["sum_of_free_wrong_percent"] == 0.5
