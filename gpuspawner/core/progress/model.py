"""Data classes for the progress of a server's start: its stages, observations, reports to the user, and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.progress.events import SourcedEvent
from gpuspawner.core.verdict.verdict import Verdict


class Stage(StrEnum):
    """The stages of a start, in order. A start may skip stages."""

    CHECKING = "checking"
    QUEUED = "queued"
    WAITING = "waiting"
    SCALING = "new-node"
    SCHEDULED = "scheduled"
    PULLING = "pulling"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailure:
    """Why a start cannot succeed.

    :param code: stable name of the reason. A start never fails with ``run_time_over``: this code means that a running
        server reached its run time limit.
    """

    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """A pod's place in a queue of Kueue.

    :param position: number of Workloads ahead of the pod's Workload; None when unknown.
    :param queue: name of the LocalQueue; may be empty.
    :param reason: why Kueue does not admit the pod; None when unknown.
    :param requeue_s: seconds until Kueue considers an evicted pod again; None when unknown.
    """

    position: int | None = None
    queue: str = ""
    reason: QueueReason | None = None
    requeue_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the hub knows about a server's start at one moment.

    :param pod: v1 Pod in JSON; None if there is no pod. The tracker ignores a pod of an earlier start.
    :param events: v1 Events in JSON, oldest first. Events of earlier pods with the same name are ignored.
    :param since_s: seconds since the start began.
    :param timeout_s: seconds from the start's beginning until the hub gives up; None = never, or unknown.
    :param verdict: prediction of :func:`gpuspawner.core.verdict.verdict.predict_verdict`; None when unknown.
    :param judged_at_s: seconds from the start's beginning until the verdict was computed; None = just now.
    :param queue: the pod's place in Kueue's queue; None when unknown.
    :param gpu_name: display name of the GPU type; empty for none.
    :param new_node_minutes: minutes that an autoscaler needs for a node of the GPU type; None when unknown.
    :param lacks_events: whether the hub cannot read events.
    :param is_node_ready: whether the pod's node is ready; None when unknown.
    """

    pod: Mapping[str, object] | None
    events: Sequence[Mapping[str, object]] = ()
    since_s: float = 0.0
    timeout_s: float | None = None
    verdict: Verdict | None = None
    judged_at_s: float | None = None
    queue: QueuePlace | None = None
    gpu_name: str = ""
    new_node_minutes: float | None = None
    lacks_events: bool = False
    is_node_ready: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A message for the user that differs from the previous message.

    :param sentence: the message, in the user's language.
    :param percent: position of the progress bar, 0 to 95; never decreases.
    :param raw_event: the event that the message is based on, redacted by
        :func:`gpuspawner.core.progress.events.scrub_event`; None without an event.
    :param is_alarm: whether there is a problem, even if the start may still succeed.
    :param failure: why the hub ends the start now; None in all stages except FAILED.
    :param lacks_room: whether the pod waits for capacity: devices, CPU, memory, its turn in a queue, or a new node.
    :param detail: the message without the place in line and without elapsed and remaining times; for a page that shows
        these beside it. Empty if it equals ``sentence``.
    :param place: the pod's place in line, as a sentence; empty if unknown.
    :param since_s: seconds from the start's beginning until this report.
    :param status: the message without what holds only now, such as the time until the hub gives up.
    :param admin_text: what only admins may read, for the hub's log: the node, and the text that the cluster wrote.
    """

    stage: Stage
    sentence: str
    percent: int
    status: str = ""
    raw_event: Mapping[str, object] | None = None
    is_alarm: bool = False
    failure: StartFailure | None = None
    lacks_room: bool = False
    detail: str = ""
    place: str = ""
    since_s: float = 0.0
    admin_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMessage:
    """A message that the tracker reports only if it differs from earlier messages.

    Fields without a description here are those of :class:`Report`.

    :param sentence: the message, to which the tracker adds sentences about the elapsed and the remaining time.
    :param event: the event that the message is based on; None if it is based on the pod alone.
    :param failure: why the hub ends the start if the problem lasts for ``after_s`` seconds; None = keep waiting.
    :param after_s: seconds that the problem may last before the hub ends the start with ``failure``.
    :param failed_at_s: seconds from the start's beginning until the hub found the problem; None = just now.
    :param lacks_room: whether the pod waits for capacity. The tracker ignores this value once the pod has a node.
    :param detail: the message without the place in line, for a page that says elsewhere what the pod waits for; empty
        if it equals ``sentence``.
    """

    stage: Stage
    sentence: str
    event: SourcedEvent | None = None
    is_alarm: bool = False
    failure: StartFailure | None = None
    after_s: float = 0.0
    failed_at_s: float | None = None
    lacks_room: bool = True
    detail: str = ""
    place: str = ""
    admin_text: str = ""
