"""What can be said of a start: the stages it goes through, and what ends it for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.progress.events import SourcedEvent
from gpuspawner.core.verdict.verdict import Verdict

START_FAILURE_CODES = frozenset(
    {
        "never_fits",
        "image_not_found",
        "image_pull_denied",
        "invalid_image",
        "rejected_by_node",
        "device_unhealthy",
        "refused_by_admission",
        "evicted",
        "preempted",
        "node_lost",
        "volume_conflict",
        "out_of_memory",
        "crashed",
        "container_config",
    }
)
"""All codes of :class:`StartFailure`. ``refused_by_admission`` is for whoever creates the pod: here there is none."""


class Stage(StrEnum):
    """Where a start is, in the order in which it gets there; some are left out."""

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
    """A start that nothing can come of any more.

    :param code: one of :data:`START_FAILURE_CODES`.
    :param sentence: why, for the person whose server it is.
    """

    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The place of a pod in a queue of Kueue.

    :param position: how many come first in the queue (0: it is next), None when not known.
    :param queue: the queue's name, as the admin gave it; may be empty.
    :param reason: why it waits there, as Kueue codes it (``WaitingForQuota``, ``NoMatchingFlavor``); may be empty.
    """

    position: int | None = None
    queue: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a start at one moment.

    :param pod: as Kubernetes' API sends it (v1 Pod in JSON), None before it exists and after it has gone. One of an
        earlier start, which is on its way out, is none.
    :param events: those of the pod (v1 Event in JSON), oldest first; of other pods of its name they are left out.
    :param since_s: seconds since the start began.
    :param timeout_s: seconds after which the start is given up, counted like ``since_s``; None for never, or unknown.
    :param verdict: what becomes of the pod as it waits (:func:`gpuspawner.core.verdict.verdict.predict_verdict`), None
        when
        unknown.
    :param judged_at_s: when that was found out, counted like ``since_s``; None for just now.
    :param queue: its place in Kueue's queue, None when unknown.
    :param gpu_name: what people call the GPU type chosen, empty for none.
    :param lacks_events: events cannot be read, so what only they say is not known.
    :param is_node_ready: whether the node it is bound to says that it is well, None when unknown.
    """

    pod: Mapping[str, object] | None
    events: Sequence[Mapping[str, object]] = ()
    since_s: float = 0.0
    timeout_s: float | None = None
    verdict: Verdict | None = None
    judged_at_s: float | None = None
    queue: QueuePlace | None = None
    gpu_name: str = ""
    lacks_events: bool = False
    is_node_ready: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something new to say.

    :param sentence: for people, in the language spoken when it was observed.
    :param percent: for the bar, 0 to 95; never less than in the report before.
    :param raw_event: the event it rests on, fit to be shown (see :func:`scrubbed`); None where there is none.
    :param is_alarm: something is wrong that may or may not mend itself.
    :param failure: why the start is to be ended now; the stage is FAILED then.
    :param lacks_room: what it waits for is room: devices, CPU, memory, its turn, a new node.
    """

    stage: Stage
    sentence: str
    percent: int
    raw_event: Mapping[str, object] | None = None
    is_alarm: bool = False
    failure: StartFailure | None = None
    lacks_room: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMessage:
    """What is to be said of a start at one moment, before it is compared with what was said already.

    :param sentence: without what changes with time alone.
    :param event: the event that it rests on, None where it rests on the pod alone.
    :param is_alarm: something is wrong that may or may not mend itself.
    :param failure: why nothing will come of it, once that has held for ``after_s`` seconds.
    :param lacks_room: what a start that waits for a node lacks is room, as far as known.
    :param failed_at_s: when hopelessness was found out, counted like the seconds of the start; None for just now.
    """

    stage: Stage
    sentence: str
    event: SourcedEvent | None = None
    is_alarm: bool = False
    failure: StartFailure | None = None
    after_s: float = 0.0
    failed_at_s: float | None = None
    lacks_room: bool = True
