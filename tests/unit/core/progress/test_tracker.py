from __future__ import annotations

from itertools import pairwise

import pytest

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.progress.events import scrub_event
from gpuspawner.core.progress.model import QueuePlace, Stage
from gpuspawner.core.progress.tracker import QUIET_PERIOD_S
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.core.starts import IMAGE, Json, Start, container, ended, event, pod, waits

FULL = "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint(s)."
FAILED_SCHEDULING = event("default-scheduler", "FailedScheduling", FULL)
NOT_FOUND = f"rpc error: code = NotFound desc = {IMAGE}: not found"
CREATING = pod(node="n", containers=[container(waits("ContainerCreating"))])


def test_a_start_goes_through_its_stages():
    start = Start()
    gated = pod(gates=("kueue.x-k8s.io/admission",))
    scaling = event("cluster-autoscaler", "TriggeredScaleUp", at_s=20)
    pulling = event("kubelet", "Pulling", f'Pulling image "{IMAGE}"', at_s=100)
    pulled = event("kubelet", "Pulled", f'Successfully pulled image "{IMAGE}" in 42s', at_s=142)
    running = pod(node="n", phase="Running", containers=[container({"running": {}})])
    start.at(0, None)
    start.at(1, gated, queue=QueuePlace(position=2, queue="gpus"))
    start.at(10, pod(), FAILED_SCHEDULING)
    start.at(20, pod(), FAILED_SCHEDULING, scaling)
    start.at(90, pod(node="n"), FAILED_SCHEDULING, scaling)
    start.at(100, CREATING, pulling)
    start.at(142, CREATING, pulling, pulled)
    start.at(145, running, pulling, pulled)
    start.at(150, pod(node="n", phase="Running", conditions={"Ready": {}}))
    assert start.stages == [*list(Stage)[:7], Stage.STARTING, Stage.READY]
    percents = [report.percent for report in start.reports]
    assert percents == sorted(percents)
    assert percents[-2] <= 90 < percents[-1]


def test_a_pull_too_quick_to_be_seen_is_mentioned_once():
    start = Start()
    pulled = event("kubelet", "Pulled", f'Successfully pulled image "{IMAGE}" in 42s')
    runs = "The program of your server is starting."
    fetched = "The image was fetched in 42 s. Your server is starting."
    ready = "Your server is running. Opening it…"
    running = pod(node="n", containers=[container({"running": {}})], conditions={"Ready": {}})
    start.at(1, pod(node="n"))
    assert start.at(5, running, pulled) == [fetched, runs, ready]
    assert (start.stages[1:], start.progress.percent) == ([Stage.STARTING, Stage.STARTING, Stage.READY], 95)
    slow = Start()
    assert [slow.at(1, CREATING, pulled), slow.at(3, running, pulled), slow.at(90, running, pulled)] == [
        [fetched],
        [runs, ready],
        [],
    ]


def test_late_news_of_a_step_is_not_shown_after_the_next_one():
    start = Start()
    pulled = event("kubelet", "Pulled", f'Successfully pulled image "{IMAGE}" in 42s')
    running = pod(node="n", containers=[container({"running": {}})])
    ready = pod(node="n", containers=[container({"running": {}})], conditions={"Ready": {}})
    start.at(1, running)
    assert [start.at(2, running, pulled), len(start.at(3, ready, pulled)), start.at(4, ready, pulled)] == [[], 1, []]
    again = Start()
    again.at(1, ready)
    assert (again.at(2, ready, pulled), again.at(60, ready, pulled)) == ([], [])


def test_how_long_it_goes_on_is_said_every_half_minute():
    start = Start(timeout_s=600.0)
    told = {at_s: new[0] for at_s in range(40, 180, 2) if (new := start.at(at_s, pod(), FAILED_SCHEDULING))}
    waiting = "Waiting for 1 × A100: 2 nodes don't have enough free. Gives up in"
    assert told == {at_s: f"{waiting} {minutes} min." for at_s, minutes in ((40, 10), (70, 9), (120, 8))}
    assert min(after - before for before, after in pairwise(told)) >= QUIET_PERIOD_S


def test_the_bar_moves_while_there_is_nothing_to_say():
    start = Start()
    start.at(0, CREATING, event("kubelet", "Pulling", f'"{IMAGE}"'))
    before = start.progress.percent
    assert (start.at(20, CREATING, event("kubelet", "Pulling", f'"{IMAGE}"')), before) == ([], 50)
    assert start.progress.percent > before


def test_alternating_messages_are_not_repeated_each_time():
    start = Start()
    other = event("default-scheduler", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.")
    told = [start.at(at_s, pod(), other if at_s % 2 else FAILED_SCHEDULING) for at_s in range(40, 60)]
    assert len([new for new in told if new]) == 2


@pytest.mark.parametrize(("at_s", "is_alarm"), [(5, False), (29.9, False), (30, True), (300, True)])
def test_no_free_node_is_an_alarm_half_a_minute_after_the_start(at_s: float, is_alarm: bool):
    start = Start()
    start.at(at_s, pod(), FAILED_SCHEDULING)
    assert start.reports[-1].is_alarm == is_alarm


def test_the_half_minute_counts_from_when_the_queue_has_let_it_go():
    start = Start()
    start.at(1, pod(gates=("kueue.x-k8s.io/admission",)))
    start.at(600, pod(), FAILED_SCHEDULING)
    assert start.reports[-1].is_alarm is False
    start.at(630, pod(), FAILED_SCHEDULING)
    assert start.reports[-1].is_alarm is True


def test_a_report_has_the_event_as_it_may_be_seen():
    start = Start()
    start.at(40, pod(), FAILED_SCHEDULING)
    assert start.reports[-1].raw_event == scrub_event(FAILED_SCHEDULING)


def test_what_never_fits_has_to_hold_for_ten_seconds():
    start = Start()
    never = Verdict(outcome=Outcome.NEVER, reason="No node with an A100 has 96 CPUs.")
    start.at(1, pod(), FAILED_SCHEDULING, verdict=never)
    start.at(10, pod(), FAILED_SCHEDULING, verdict=never)
    assert start.code is None
    assert start.at(11, pod(), FAILED_SCHEDULING, verdict=never) == ["No node with an A100 has 96 CPUs."]
    assert (start.code, start.reports[-1].stage, start.reports[-1].is_alarm) == ("never_fits", Stage.FAILED, True)
    assert start.at(60, pod(), FAILED_SCHEDULING) == []


@pytest.mark.parametrize(
    ("verdict", "events"),
    [
        (Verdict(outcome=Outcome.UNKNOWN), ()),
        (None, ()),
        (Verdict(outcome=Outcome.NEVER), (event("karpenter", "Nominated", "nodeclaim/x", at_s=5),)),
    ],
)
def test_a_doubt_about_never_begins_the_ten_seconds_anew(verdict: Verdict | None, events: tuple[Json, ...]):
    start, never = Start(), Verdict(outcome=Outcome.NEVER)
    start.at(1, pod(), FAILED_SCHEDULING, verdict=never)
    start.at(9, pod(), FAILED_SCHEDULING, *events, verdict=verdict)
    start.at(12, pod(), FAILED_SCHEDULING, verdict=never)
    assert start.code is None
    start.at(22, pod(), FAILED_SCHEDULING, verdict=never)
    assert start.code == "never_fits"


def test_what_never_fits_is_not_believed_for_being_looked_at_again():
    start, never = Start(), Verdict(outcome=Outcome.NEVER)
    for at_s in (1, 5, 14):
        start.at(at_s, pod(), FAILED_SCHEDULING, verdict=never, judged_at_s=1.0)
    assert start.code is None
    start.at(15, pod(), FAILED_SCHEDULING, verdict=never, judged_at_s=10.9)
    assert start.code is None
    start.at(15, pod(), FAILED_SCHEDULING, verdict=never, judged_at_s=11.0)
    assert start.code == "never_fits"


def test_an_image_that_does_not_exist_is_reported_at_once_and_ends_the_start_soon():
    start = Start()
    failing = pod(node="n", containers=[container(waits("ErrImagePull", NOT_FOUND))])
    sentence = f"The image {IMAGE} does not exist, or not under this tag."
    assert start.at(5, failing) == [sentence]
    assert (start.reports[-1].stage, start.code) == (Stage.PULLING, None)
    assert start.at(24, failing) == []
    assert (start.at(25, failing), start.code) == ([sentence], "image_not_found")


def test_an_image_that_could_be_had_after_all_ends_nothing():
    start = Start()
    failing = pod(node="n", containers=[container(waits("ErrImagePull", NOT_FOUND))])
    start.at(5, failing)
    start.at(20, CREATING, event("kubelet", "Pulled", "Successfully pulled image"))
    start.at(26, failing)
    assert start.code is None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (
            pod(node="n", phase="Failed", reason="UnexpectedAdmissionError", message="no healthy devices"),
            "device_unhealthy",
        ),
        (pod(node="n", containers=[container(waits("InvalidImageName"))]), "invalid_image"),
        (pod(node="n", conditions={"DisruptionTarget": {"reason": "PreemptionByScheduler"}}), "preempted"),
    ],
)
def test_a_certain_failure_ends_a_start_at_once(raw: Json, code: str):
    start = Start()
    start.at(1, CREATING)
    start.at(6, raw)
    assert (start.code, start.reports[-1].stage) == (code, Stage.FAILED)


def test_a_pod_that_is_gone_is_given_up_after_a_moment():
    start = Start()
    evicted = event("taint-eviction-controller", "TaintManagerEviction")
    start.at(1, CREATING)
    start.at(3, None, evicted)
    assert start.code is None
    start.at(8, None, evicted)
    assert start.code == "node_lost"


@pytest.mark.parametrize("raw", [None, pod(node="n", metadata={"deletionTimestamp": "2026-05-04T08:00:00Z"})])
def test_a_pod_whose_node_is_gone_is_lost_with_it(raw: Json | None):
    start = Start(is_node_ready=False)
    start.at(1, CREATING)
    start.at(31, raw)
    start.at(37, raw)
    assert start.code == "node_lost"


def test_a_pod_that_is_made_anew_is_not_gone():
    start = Start()
    start.at(1, pod(metadata={"uid": "0"}))
    start.at(3, None)
    start.at(7, CREATING)
    start.at(9, CREATING)
    assert (start.code, start.stages) == (None, [Stage.CHECKING, Stage.SCHEDULED])


@pytest.mark.parametrize(
    "old", [pod(metadata={"deletionTimestamp": "2026-05-04T08:00:00Z"}), pod(phase="Failed"), pod(phase="Succeeded")]
)
def test_the_pod_of_an_earlier_start_says_nothing(old: Json):
    start = Start()
    start.at(0, old)
    start.at(2, CREATING)
    assert start.stages == [Stage.CHECKING, Stage.SCHEDULED]


def test_events_of_an_earlier_pod_say_nothing():
    start = Start()
    old = event("cluster-autoscaler", "TriggeredScaleUp")
    old["involvedObject"]["uid"] = "0"
    start.at(40, pod(), old, FAILED_SCHEDULING)
    assert start.stages == [Stage.WAITING]


UNTOLD = "The hub may not read the cluster's events, so a reason may be missing here."


def test_where_events_cannot_be_read_what_depends_on_them_says_so():
    start = Start(lacks_events=True)
    assert start.at(0, None) == ["Your server is being set up."]
    (waits_for_a_node,) = start.at(1, pod(conditions={"PodScheduled": {"reason": "Unschedulable", "message": FULL}}))
    (is_loaded,) = start.at(2, pod(node="n"))
    *_, runs = start.at(9, pod(node="n", phase="Running", conditions={"Ready": {}}))
    assert [UNTOLD in each for each in (waits_for_a_node, is_loaded, runs)] == [True, True, False]


# -- after a restart of the hub ----------------------------------------------------------------------------------------


def test_a_resumed_start_goes_on_where_it_was():
    before, after = Start(timeout_s=900), Start(is_resumed=True, timeout_s=900)
    before.at(0, None)
    for each in (before, after):
        each.at(400, pod(), FAILED_SCHEDULING)
    assert after.reports[-1].sentence == before.reports[-1].sentence
    assert after.reports[-1].percent > before.reports[-1].percent
    assert "Gives up in 9 min." in after.reports[-1].sentence


def test_a_pod_that_ended_before_the_hub_came_back_is_that_of_the_start():
    going = pod(
        conditions={"DisruptionTarget": {"reason": "PreemptionByScheduler"}}, metadata={"deletionTimestamp": "x"}
    )
    start = Start(is_resumed=True)
    start.at(60, going)
    assert start.code == "preempted"


@pytest.mark.parametrize(
    ("events", "code"), [([event("default-scheduler", "Preempted", "by pod 1")], "preempted"), ([], "evicted")]
)
def test_a_pod_that_was_gone_before_the_hub_came_back_is_missed_for_a_moment(events: list[Json], code: str):
    start = Start(is_resumed=True)
    assert start.at(60, None, *events) == []
    start.at(66, None, *events)
    assert start.code == code


UNTOUCHED = "The scheduler site-scheduler hasn't looked at your server yet. It may not be running."
SCHEDULED_BY_SITE = {**pod(), "spec": {**pod()["spec"], "schedulerName": "site-scheduler"}}
NOMINATED = {**SCHEDULED_BY_SITE, "status": {"phase": "Pending", "nominatedNodeName": "n"}}
REFUSED_BY_SITE = {
    **SCHEDULED_BY_SITE,
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]},
}
GATED_BY_SITE = {**pod(gates=("site/gate",)), "spec": {**pod(gates=("site/gate",))["spec"], "schedulerName": "s"}}


def test_a_pod_that_no_scheduler_has_looked_at_for_30_s_says_so_by_the_scheduler_s_name():
    start = Start()
    told = [start.at(at_s, SCHEDULED_BY_SITE) for at_s in (20, 49, 50)]
    assert told == [["Your server is being set up."], [], [UNTOUCHED]]
    last = start.reports[-1]
    assert (last.stage, last.is_alarm, last.lacks_room) == (Stage.WAITING, True, False)
    assert start.progress.idle_scheduler == "site-scheduler"


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        pytest.param(REFUSED_BY_SITE, (), id="the scheduler has set its condition"),
        pytest.param(NOMINATED, (), id="room is being made on a node"),
        pytest.param(SCHEDULED_BY_SITE, (event("site-scheduler", "Scheduling"),), id="the scheduler wrote an event"),
        pytest.param(GATED_BY_SITE, (), id="a scheduling gate keeps schedulers off"),
        pytest.param({**SCHEDULED_BY_SITE, "spec": {"nodeName": "n"}}, (), id="it has a node"),
    ],
)
def test_a_pod_that_a_scheduler_has_looked_at_is_not_said_to_be_overlooked(raw: Json, events: tuple[Json, ...]):
    start = Start()
    told = [sentence for at_s in (1, 40, 80) for sentence in start.at(at_s, raw, *events)]
    assert ([sentence for sentence in told if "looked at" in sentence], start.progress.idle_scheduler) == ([], "")


def test_a_pod_that_a_scheduler_looks_at_late_goes_on_as_any_other():
    start = Start()
    for at_s in (0, 40):
        start.at(at_s, SCHEDULED_BY_SITE)
    start.at(50, pod(), FAILED_SCHEDULING)
    assert (start.progress.idle_scheduler, "1 × A100" in start.reports[-1].sentence) == ("", True)


def test_a_pod_whose_gates_were_just_removed_has_30_s_for_a_scheduler_to_look_at_it():
    start = Start()
    start.at(0, GATED_BY_SITE)
    told = [start.at(at_s, SCHEDULED_BY_SITE) for at_s in (100, 129, 130)]
    assert told[-1:] == [[UNTOUCHED]]
    assert not any("looked at" in sentence for each in told[:-1] for sentence in each)


def test_a_page_gets_the_place_in_line_and_the_reason_without_times():
    start = Start()
    waits = Verdict(outcome=Outcome.WAITS, reason="all 8 are in use", ahead=0)
    start.at(65, pod(), FAILED_SCHEDULING, verdict=waits, timeout_s=300)
    report = start.reports[-1]
    assert report.sentence == "Waiting for 1 × A100: all 8 are in use. You're next. Gives up in 4 min."
    assert (report.detail, report.place, report.since_s) == ("All 8 are in use.", "You're next.", 65)


def test_a_page_gets_the_place_in_a_queue():
    start = Start()
    place = QueuePlace(position=3, queue="team", reason=QueueReason.QUOTA_IN_USE)
    start.at(1, pod(gates=("kueue.x-k8s.io/admission",)), queue=place, timeout_s=300)
    report = start.reports[-1]
    assert report.place == "3 are ahead of you."
    assert report.detail == "Waiting in the queue team. The queue's quota is in use."


def test_a_page_gets_no_time_of_a_pull_beside_its_own():
    start = Start()
    pulling = event("kubelet", "Pulling", f'Pulling image "{IMAGE}"')
    start.at(1, CREATING, pulling)
    start.at(60, CREATING, pulling)
    assert start.reports[-1].sentence.endswith(" That has taken 59 s so far.")
    assert start.reports[-1].detail == f"The image {IMAGE} is being fetched."


def test_the_exit_code_of_a_hook_is_kept_while_kubelet_holds_the_container_back():
    """A kubelet 1.36 writes the code into the state for a second, and never into the event."""
    text = "Exec lifecycle hook ([sh]) failed - error: command 'sh' exited with 3: , message: \"secret\""
    events = [event("kubelet", "Started"), event("kubelet", "FailedPostStartHook", "PostStartHook failed")]
    start = Start()
    for at_s, state, restarts in (
        (2, waits("PostStartHookError", text), 0),
        (40, waits("CrashLoopBackOff", "back-off 10s restarting"), 1),
        (90, waits("CrashLoopBackOff", "back-off 40s restarting"), 3),
    ):
        start.at(
            at_s, pod(node="n1", containers=[container(state, last=ended("Error", 137), restarts=restarts)]), *events
        )
    sentence = "The postStart hook of your server failed with exit code 3."
    assert [report.sentence for report in start.reports] == [
        f"{sentence} It is started again.",
        f"{sentence} Ask an admin.",
    ]
    assert [report.admin_text for report in start.reports] == [f"container notebook on the node n1: {text}"] * 2
    assert "secret" not in str([(report.sentence, report.raw_event) for report in start.reports])
