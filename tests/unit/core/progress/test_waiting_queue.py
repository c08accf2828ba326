from __future__ import annotations

import pytest

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.model import QueuePlace, Stage
from gpuspawner.core.progress.tracker import QUIET_PERIOD_S
from gpuspawner.core.progress.waiting import HOPELESS_IN_QUEUE_AFTER_S, describe_queue
from tests.unit.core.starts import Json, Start, event, pod

GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
GATED = pod(gates=GATES)
OF_CLASS = pod(gates=GATES, metadata={"labels": {"kueue.x-k8s.io/priority-class": "interactive"}})
WAITS = "Waiting in the queue gpu-queue."


def place(reason: QueueReason | None = None, position: int | None = None, requeue_s: float | None = None) -> QueuePlace:
    return QueuePlace(queue="gpu-queue", position=position, reason=reason, requeue_s=requeue_s)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(None, "Waiting in the queue.", id="nothing known"),
        pytest.param(place(), WAITS, id="no position"),
        pytest.param(
            place(position=0),
            f"{WAITS} Nothing is ahead of you. The hub can't tell whether the queue can admit your server.",
            id="no reason",
        ),
        pytest.param(place(position=1), f"{WAITS} 1 is ahead of you.", id="position without a reason"),
        pytest.param(
            place(QueueReason.NOT_EVALUATED, 0), f"{WAITS} Nothing is ahead of you.", id="not looked at by Kueue yet"
        ),
        pytest.param(
            place(QueueReason.QUOTA_IN_USE, 0), f"{WAITS} You're next. The queue's quota is in use.", id="next"
        ),
        pytest.param(
            place(QueueReason.QUOTA_IN_USE, 7), f"{WAITS} 7 are ahead of you. The queue's quota is in use.", id="behind"
        ),
        pytest.param(
            place(QueueReason.PREEMPTION, 0),
            f"{WAITS} You're next. The queue is making room for your server.",
            id="preemption",
        ),
        pytest.param(
            place(QueueReason.OTHERS_NOT_READY, 0),
            f"{WAITS} You're next. The queue is waiting until everything it has admitted is ready.",
            id="others are not ready",
        ),
        pytest.param(
            place(QueueReason.NO_TOPOLOGY, 2),
            f"{WAITS} 2 are ahead of you. No group of nodes has room for your server right now.",
            id="topology",
        ),
        pytest.param(
            place(QueueReason.CHECKS),
            f"{WAITS} The queue has reserved quota for your server and is waiting for further checks.",
            id="checks",
        ),
        pytest.param(
            place(QueueReason.REQUEUED, requeue_s=240.0),
            f"{WAITS} The queue has put your server back and will consider it again in about 4 min.",
            id="sent back for a time",
        ),
        pytest.param(
            place(QueueReason.REQUEUED),
            f"{WAITS} The queue has put your server back and will consider it again later.",
            id="sent back",
        ),
        pytest.param(
            place(QueueReason.NOT_TAKEN), f"{WAITS} The queue hasn't accepted your server yet.", id="not taken"
        ),
    ],
)  # fmt: skip
def test_the_place_in_the_queue_is_shown(found: QueuePlace | None, sentence: str):
    message = describe_queue(GATED, (), place=found)
    assert (message.stage, message.sentence, message.is_alarm, message.failure) == (Stage.QUEUED, sentence, False, None)


HOPELESS = [
    pytest.param(
        QueueReason.EXCEEDS_QUOTA,
        "exceeds_queue_quota",
        "Your server asks for more than the whole quota of the queue gpu-queue.",
        id="exceeds the quota",
    ),
    pytest.param(
        QueueReason.NO_FLAVOR,
        "no_queue_flavor",
        "The queue gpu-queue has nothing of the kind that your server asks for.",
        id="no flavor",
    ),
    pytest.param(QueueReason.NO_QUEUE, "queue_unavailable", "The queue gpu-queue does not exist.", id="no queue"),
    pytest.param(
        QueueReason.STOPPED,
        "queue_unavailable",
        "The queue gpu-queue is stopped, or not set up completely.",
        id="stopped",
    ),
    pytest.param(
        QueueReason.INACTIVE,
        "queue_unavailable",
        "The queue gpu-queue is stopped, or not set up completely.",
        id="inactive",
    ),
    pytest.param(
        QueueReason.MISCONFIGURED,
        "refused_by_queue",
        "The queue does not accept your server, because their settings do not match.",
        id="misconfigured",
    ),
    pytest.param(
        QueueReason.DEACTIVATED,
        "refused_by_queue",
        "The queue gpu-queue no longer considers your server.",
        id="deactivated",
    ),
    pytest.param(
        QueueReason.NOT_TAKEN,
        "refused_by_queue",
        "The queue hasn't accepted your server. Its priority class interactive may not exist.",
        id="no Workload",
    ),
]


@pytest.mark.parametrize("position", [None, 0, 3])
@pytest.mark.parametrize(("reason", "code", "sentence"), HOPELESS)
def test_what_kueue_can_never_admit_ends_the_start_within_a_minute_and_is_never_next(
    reason: QueueReason, code: str, sentence: str, position: int | None
):
    start = Start()
    for since_s in range(3, 60, 3):
        start.at(since_s, OF_CLASS, queue=place(reason, position))
    assert (start.code, start.reports[-1].sentence) == (code, sentence)
    assert [each for each in start.reports if "next" in each.sentence or "ahead" in each.sentence] == []
    assert [each.is_alarm for each in start.reports] == [True] * len(start.reports)


def test_a_reason_that_does_not_last_ends_nothing():
    start = Start()
    start.at(3, GATED, queue=place(QueueReason.STOPPED))
    start.at(20, GATED, queue=place(QueueReason.QUOTA_IN_USE, 0))
    start.at(40, GATED, queue=place(QueueReason.STOPPED))
    start.at(40 + HOPELESS_IN_QUEUE_AFTER_S - 1, GATED, queue=place(QueueReason.STOPPED))
    assert start.code is None
    start.at(40 + HOPELESS_IN_QUEUE_AFTER_S, GATED, queue=place(QueueReason.STOPPED))
    assert start.code == "queue_unavailable"


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(place(), id="unknown"),
        pytest.param(place(QueueReason.NOT_TAKEN), id="no Workload, and no priority class that may be missing"),
        pytest.param(place(QueueReason.QUOTA_IN_USE, 0), id="quota in use"),
        pytest.param(place(QueueReason.REQUEUED), id="sent back"),
    ],
)
def test_what_may_be_admitted_waits_for_its_whole_time(found: QueuePlace):
    start = Start()
    for since_s in range(0, 3600, int(QUIET_PERIOD_S)):
        start.at(since_s, GATED, queue=found)
    assert (start.code, start.reports[-1].is_alarm) == (None, False)


def test_a_later_kueue_says_that_a_priority_class_is_missing():
    raw = event(
        "pod-kueue-controller", "WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "interactive" not found'
    )
    found = describe_queue(OF_CLASS, parse_events([raw]), place=place(QueueReason.NOT_TAKEN))
    assert found.failure.sentence == "The priority class interactive of the queue does not exist."


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(event("pod-kueue-controller", "CreatedWorkload", "Created Workload: hub/pod-x-1f2"), id="taken"),
        pytest.param(event("default-scheduler", "ErrWorkloadCompose", "…"), id="not by Kueue"),
    ],
)
def test_other_events_are_no_alarm(raw: Json):
    found = describe_queue(GATED, parse_events([raw]), place=None)
    assert (found.is_alarm, found.failure) == (False, None)


def test_a_pod_that_kueue_cannot_take_is_an_alarm():
    found = describe_queue(GATED, parse_events([event("pod-kueue-controller", "ErrWorkloadCompose", "…")]), place=None)
    assert (found.sentence, found.is_alarm) == (
        "The queue does not accept your server, because their settings do not match.",
        True,
    )
    assert found.failure.code == "refused_by_queue"


def test_another_gate_is_no_queue():
    found = describe_queue(pod(gates=("example.org/hold",)), (), place=None)
    assert (found.stage, found.sentence) == (Stage.QUEUED, "Another system decides when your server may start.")
