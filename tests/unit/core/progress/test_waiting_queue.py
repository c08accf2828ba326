from __future__ import annotations

import pytest

from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.model import QueuePlace, Stage
from gpuspawner.core.progress.waiting import describe_queue
from tests.unit.core.starts import Json, event, pod

GATED = pod(gates=("kueue.x-k8s.io/admission",))
TOO_LARGE = "The queue has no place for it as things are."


@pytest.mark.parametrize(
    ("place", "sentence", "is_alarm"),
    [
        (None, "Your server waits in the queue.", False),
        (QueuePlace(queue="gpu-queue"), "Your server waits in the queue gpu-queue.", False),
        (QueuePlace(position=0), "Your server waits in the queue. It is next.", False),
        (QueuePlace(position=1), "Your server waits in the queue. 1 is ahead of it.", False),
        (
            QueuePlace(position=7, queue="gpu-queue", reason="WaitingForQuota"),
            "Your server waits in the queue gpu-queue. 7 are ahead of it.",
            False,
        ),
        (QueuePlace(reason="NoMatchingFlavor"), f"Your server waits in the queue. {TOO_LARGE}", True),
        (QueuePlace(reason="ExceedsMaxQuota"), f"Your server waits in the queue. {TOO_LARGE}", True),
    ],
)
def test_the_place_in_the_queue_is_told(place: QueuePlace | None, sentence: str, is_alarm: bool):
    found = describe_queue(GATED, (), place=place)
    assert (found.stage, found.sentence, found.is_alarm) == (Stage.QUEUED, sentence, is_alarm)


@pytest.mark.parametrize(
    ("raw", "is_alarm"),
    [
        (
            event(
                "kueue-admission",
                "Pending",
                "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, "
                "1 more needed",
            ),
            False,
        ),
        (
            event(
                "kueue-admission",
                "Pending",
                "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor a100, "
                "request > maximum capacity (8 > 4)",
            ),
            True,
        ),
        (event("pod-kueue-controller", "CreatedWorkload", "Created Workload: hub/pod-jupyter-ada-1f2"), False),
        (event("default-scheduler", "Pending", "request > maximum capacity (8 > 4)"), False),
    ],
)
def test_what_kueue_says_tells_a_queue_that_is_too_small(raw: Json, is_alarm: bool):
    assert describe_queue(GATED, parse_events([raw]), place=None).is_alarm == is_alarm


def test_a_pod_that_kueue_cannot_take_is_an_alarm():
    found = describe_queue(GATED, parse_events([event("pod-kueue-controller", "ErrWorkloadCompose", "…")]), place=None)
    assert (found.sentence, found.is_alarm) == ("The queue cannot take your server as it is set up.", True)


def test_another_gate_is_no_queue():
    found = describe_queue(pod(gates=("example.org/hold",)), (), place=None)
    assert (found.stage, found.sentence) == (Stage.QUEUED, "Another system decides when your server may start.")
