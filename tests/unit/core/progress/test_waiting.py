from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth
from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.model import Facts, Stage
from gpuspawner.core.progress.waiting import describe_setup, describe_waiting, format_time_left
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.core.starts import Json, event, pod

FULL = "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint(s)."


def told(message: str = FULL, *, is_early: bool = False, gpu_name: str = "A100", **facts: Any):
    """Return what is said of a pod that kube-scheduler says something of."""
    raw = [event("default-scheduler", "FailedScheduling", message), *facts.pop("events", [])]
    values = {"pod": pod(), "gpu_name": gpu_name, **facts}
    return describe_waiting(Facts(**values), parse_events(raw), is_early=is_early)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (FULL, "Waiting for 1 × A100: 2 nodes don't have enough free."),
        (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            "Waiting for 1 × A100: 1 node doesn't have enough free.",
        ),
        (
            "0/3 nodes are available: 1 Insufficient cpu, 3 Insufficient memory, 2 Insufficient nvidia.com/gpu.",
            "Waiting for 1 × A100, CPU and memory: 3 nodes don't have enough free.",
        ),
        (
            "0/2 nodes are available: 1 Too many pods, 1 Insufficient ephemeral-storage.",
            "Waiting for disk space and a place on a node: 1 node doesn't have enough free.",
        ),
        (
            "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had volume node affinity conflict.",
            "Waiting for 1 × A100: 1 node doesn't have enough free. Other nodes can't reach a disk of your "
            "server: it is in another zone.",
        ),
        (
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            "A disk of your server is in a zone without a suitable node.",
        ),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint(s).",
            "The existing nodes are reserved for other work.",
        ),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", "1 node takes no new servers right now."),
        (
            "0/4 nodes are available: 2 node(s) were unschedulable, 2 node(s) had untolerated taint(s).",
            "2 nodes take no new servers right now.",
        ),
        (
            "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
            "Suitable nodes aren't ready.",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            "There is no node with an A100 right now.",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
            "Other servers keep yours off suitable nodes.",
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "claim-ada" not found.',
            "A disk of your server is not there yet.",
        ),
        (
            "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access.",
            "A disk of your server is still in use by another server.",
        ),
        (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) exceed max volume count.",
            "Waiting for CPU: 1 node doesn't have enough free. Other nodes can't attach another disk.",
        ),
        (
            "0/2 nodes are available: 2 node(s) did not have enough free storage.",
            "Suitable nodes can't attach another disk.",
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "claim-ada" bound to non-existent persistentvolume "pv-1".',
            "A disk of your server is not there yet.",
        ),
        (
            "0/2 nodes are available: 2 node(s) exceed max volume count.",
            "Suitable nodes can't attach another disk.",
        ),
        ("something new", "Looking for a node with 1 × A100 free."),
    ],
)
def test_what_a_server_waits_for(message: str, sentence: str):
    found = told(message)
    assert (found.stage, found.sentence, found.is_alarm) == (Stage.WAITING, sentence, True)


def test_a_server_without_a_gpu_waits_in_words_of_its_own():
    none = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert told(none, gpu_name="").sentence == "There is no suitable node right now."
    assert told("", gpu_name="", is_early=True).sentence == describe_setup().sentence
    assert told(FULL, gpu_name="", is_early=True).sentence == "Looking for a node for your server."
    assert told(FULL, gpu_name="").sentence == "Waiting for a free device: 2 nodes don't have enough free."


def test_what_the_condition_says_comes_before_an_event_that_may_be_cut():
    unschedulable = {"PodScheduled": {"status": "False", "reason": "Unschedulable", "message": FULL}}
    found = told("0/5 nodes are available: 5 Insuffic", pod=pod(conditions=unschedulable))
    assert found.sentence == "Waiting for 1 × A100: 2 nodes don't have enough free."
    alone = describe_waiting(Facts(pod=pod(conditions=unschedulable), gpu_name="A100"), (), is_early=False)
    assert (alone.sentence, alone.event) == (found.sentence, None)


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (
            Verdict(outcome=Outcome.WAITS, reason="All 4 are in use.", ahead=2),
            "Waiting for 1 × A100: all 4 are in use. 2 servers are ahead of yours.",
        ),
        (
            Verdict(outcome=Outcome.WAITS, reason="All 4 are in use.", ahead=0),
            "Waiting for 1 × A100: all 4 are in use. You're next.",
        ),
        (
            Verdict(outcome=Outcome.WAITS, ahead=1),
            "Waiting for 1 × A100: 2 nodes don't have enough free. 1 server is ahead of yours.",
        ),
        (
            Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=6),
            "Waiting for a new node. That usually takes about 6 min.",
        ),
        (Verdict(outcome=Outcome.AFTER_SCALE_UP), "Waiting for a new node."),
        (Verdict(outcome=Outcome.NOW, places=1), "Waiting for 1 × A100: 2 nodes don't have enough free."),
        (Verdict(outcome=Outcome.UNKNOWN), "Waiting for 1 × A100: 2 nodes don't have enough free."),
    ],
)
def test_the_reason_of_a_wait_follows_from_the_verdict(verdict: Verdict, sentence: str):
    found = told(verdict=verdict)
    assert (found.sentence, found.failure) == (sentence, None)
    is_calm = told(verdict=verdict, is_early=True)
    assert is_calm.is_alarm is False


@pytest.mark.parametrize(
    ("message", "code", "sentence"),
    [
        (FULL, "never_fits", "No node with an A100 has 96 CPUs."),
        (
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            "volume_conflict",
            "A disk of your server is in a zone without a suitable node.",
        ),
    ],
)
@pytest.mark.parametrize("is_early", [True, False])
def test_what_never_fits_is_hopeless_after_a_while(message: str, code: str, sentence: str, is_early: bool):
    verdict = Verdict(outcome=Outcome.NEVER, reason="No node with an A100 has 96 CPUs.")
    found = told(message, verdict=verdict, is_early=is_early)
    assert (found.failure.code, found.failure.sentence, found.after_s) == (code, sentence, 10.0)


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(
    ("events", "growth", "ending"),
    [
        pytest.param([], NodeGrowth.UNSEEN, " One may be added.", id="an autoscaler may add it"),
        pytest.param([], NodeGrowth.POSSIBLE, " The cluster-autoscaler may add one.", id="one that is known may"),
        pytest.param([], NodeGrowth.FULL, " All node groups have their largest size.", id="none may right now"),
        pytest.param(
            [event("cluster-autoscaler", "NotTriggerScaleUp", "no")], NodeGrowth.POSSIBLE, "", id="it refuses"
        ),
    ],
)
def test_while_no_such_node_is_running_the_page_says_the_same_as_the_form(
    events: list[dict[str, Any]], growth: NodeGrowth, ending: str, is_early: bool
):
    reason = "There is no A100 in the cluster."
    verdict = Verdict(outcome=Outcome.UNKNOWN, may_add_node=True, growth=growth, reason=reason)
    found = told("0/1 nodes are available: 1 Insufficient memory.", verdict=verdict, events=events, is_early=is_early)
    assert (found.sentence, found.failure, found.lacks_room) == (
        f"No such node is running: there is no A100 in the cluster.{ending}",
        None,
        True,
    )


@pytest.mark.parametrize("verdict", [None, Verdict(outcome=Outcome.NEVER), Verdict(outcome=Outcome.UNKNOWN)])
@pytest.mark.parametrize(
    "raw",
    [
        event("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 1->2 (max: 8)}]"),
        event("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p"),
    ],
)
def test_a_new_node_on_its_way_is_no_alarm_whatever_else_is_said(verdict: Verdict | None, raw: dict[str, Any]):
    found = told(verdict=verdict, events=[raw])
    assert (found.stage, found.sentence, found.is_alarm, found.failure) == (
        Stage.SCALING,
        "Adding a new node for your server.",
        False,
        None,
    )


CLAIM = event("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p", at_s=30)
TRIGGERED = event("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 0->1 (max: 4)}]", at_s=30)
MISFIT = "1 node(s) didn't match Pod's node affinity/selector"
DECLINED = event("cluster-autoscaler", "NotTriggerScaleUp", f"pod didn't trigger scale-up: {MISFIT}", at_s=40)
REFUSED = event("karpenter", "FailedScheduling", "Failed to schedule pod, did not tolerate taint (taint=x)", at_s=40)


NOMINATED = event("karpenter", "Nominated", "Pod should schedule on: node/ip-10-0-0-9", at_s=30)
REPEATED = {**CLAIM, "firstTimestamp": CLAIM["lastTimestamp"], "lastTimestamp": "2026-05-04T08:09:00Z", "count": 5}
TRIGGERED_AGAIN = {**TRIGGERED, "firstTimestamp": "2026-05-04T08:00:30Z", "lastTimestamp": "2026-05-04T08:10:00Z"}


@pytest.mark.parametrize(
    ("events", "minutes", "overdue_at_s", "sentence"),
    [
        ([CLAIM], None, 630.0, "A new node was requested, but it isn't there yet."),
        ([CLAIM, DECLINED], None, 630.0, "A new node was requested, but it isn't there yet."),
        ([TRIGGERED, REFUSED], None, 630.0, "A new node was requested, but it isn't there yet."),
        ([CLAIM], 6.0, 390.0, "A new node was requested, but it isn't there yet."),
        ([REPEATED], None, 630.0, "A new node was requested, but it isn't there yet."),
        ([NOMINATED], None, 630.0, "A node was found, but it hasn't taken your server."),
        ([TRIGGERED], 12.0, 750.0, "A new node was requested, but it isn't there yet."),
        ([TRIGGERED_AGAIN], None, 1200.0, "A new node was requested, but it isn't there yet."),
    ],
    ids=[
        "a NodeClaim",
        "another declines",
        "Karpenter refuses",
        "as the pool says",
        "said again",
        "a node",
        "a group",
        "a second increase",
    ],
)
def test_a_node_that_does_not_come_in_time_hides_the_scheduler_s_reason_no_longer(
    events: list[Json], minutes: float | None, overdue_at_s: float, sentence: str
):
    verdict = None if minutes is None else Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=minutes)
    waits = told(events=events, verdict=verdict, since_s=overdue_at_s - 1)
    overdue = told(events=events, verdict=verdict, since_s=overdue_at_s)
    reason = "Waiting for 1 × A100: 2 nodes don't have enough free."
    assert (waits.is_alarm, overdue.sentence, overdue.is_alarm) == (False, f"{reason} {sentence}", True)


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        Verdict(outcome=Outcome.WAITS, reason="All are in use."),
        Verdict(outcome=Outcome.UNKNOWN),
        Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=6.0),
        Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=20.0),
    ],
)
def test_a_new_node_has_the_minutes_of_the_type_whatever_the_verdict_says(verdict: Verdict | None):
    found = [
        told(events=[CLAIM], verdict=verdict, new_node_minutes=20.0, since_s=since_s) for since_s in (1229.0, 1230.0)
    ]
    assert [each.stage for each in found] == [Stage.SCALING, Stage.WAITING]


def test_a_node_that_does_not_come_in_time_keeps_back_no_proof_that_there_is_none():
    verdict = Verdict(outcome=Outcome.NEVER, reason="No node with an A100 has 96 CPUs.")
    found = [told(events=[CLAIM], verdict=verdict, since_s=since_s) for since_s in (629.0, 630.0)]
    assert [each.failure and each.failure.code for each in found] == [None, "never_fits"]


def test_a_pod_without_the_time_of_its_creation_waits_for_its_node():
    raw = pod(metadata={"creationTimestamp": None})
    assert told(events=[CLAIM], pod=raw, since_s=9000.0).sentence == "Adding a new node for your server."


def test_after_six_nodeclaims_in_a_row_the_machine_may_be_out_of_stock():
    claims = [event("karpenter", "Nominated", f"Pod should schedule on: nodeclaim/gpu-{n}", at_s=n) for n in range(6)]
    assert told(events=claims[:5], since_s=60.0).sentence == "Adding a new node for your server."
    assert told(events=claims, since_s=60.0).sentence == (
        "Waiting for 1 × A100: 2 nodes don't have enough free. 6 attempts to add a node failed. The cloud provider may"
        " be out of such machines."
    )


def test_the_time_of_a_new_node_is_shown():
    found = told(
        verdict=Verdict(outcome=Outcome.AFTER_SCALE_UP, minutes=6),
        events=[event("cluster-autoscaler", "TriggeredScaleUp")],
    )
    assert found.sentence == "Adding a new node for your server. That usually takes about 6 min."


def test_a_node_that_was_found_is_waited_for():
    found = told(events=[event("karpenter", "Nominated", "Pod should schedule on: node/ip-10-0-0-1")])
    assert (found.stage, found.sentence) == (
        Stage.WAITING,
        "Found a node. Your server will be placed on it in a moment.",
    )


def test_room_that_is_being_made_is_no_alarm():
    raw = pod()
    raw["status"]["nominatedNodeName"] = "n1"
    found = told(pod=raw)
    assert (found.sentence, found.is_alarm) == ("Making room for your server on a node.", False)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("1 max node group size reached", "No new node can be added: there are as many as there may be."),
        ("GCE quota exceeded", "No new node can be added: the cluster's quota with its provider is used up."),
        ("GCE out of resources", "No new node can be added: the provider has no such machine right now."),
        ("1 in backoff after failed scale-up", "Adding a node failed; it is tried again later."),
        ("1 not ready for scale-up", "No new node can be added right now."),
    ],
)
def test_the_reason_why_no_node_is_added_is_shown(message: str, sentence: str):
    text = f"pod didn't trigger scale-up: {message}"
    found = told(events=[event("cluster-autoscaler", "NotTriggerScaleUp", text)])
    assert found.sentence == f"Waiting for 1 × A100: 2 nodes don't have enough free. {sentence}"


@pytest.mark.parametrize(
    ("left_s", "sentence"),
    [
        (None, ""),
        (-1, ""),
        (0, ""),
        (59, "Gives up in less than a minute."),
        (720, "Gives up in 12 min."),
        (36000, "Gives up in 10 h."),
    ],
)
def test_the_time_left_is_shown(left_s: float | None, sentence: str):
    assert format_time_left(left_s) == sentence
