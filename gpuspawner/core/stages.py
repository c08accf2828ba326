"""What can be said of a start: the stages it goes through, and what ends it for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

HOPELESS_CODES = frozenset(
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
"""All codes of :class:`Hopeless`. ``refused_by_admission`` is for whoever creates the pod: then there is none to see."""


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
class Hopeless:
    """A start that nothing can come of any more.

    :param code: one of :data:`HOPELESS_CODES`.
    :param sentence: why, for the person whose server it is.
    """

    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The place of a pod in a queue of Kueue.

    :param position: how many come first in the queue (0: it is next), None when not known.
    :param queue: the queue's name, as the admin gave it; may be empty.
    :param reason: why it waits there, as Kueue's API codes it (``WaitingForQuota``, ``NoMatchingFlavor``); may be empty.
    """

    position: int | None = None
    queue: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """What is to be said of a start at one moment, before it is compared with what was said already.

    :param event: the event that it rests on, None where it rests on the pod alone.
    :param is_alarm: something is wrong that may or may not mend itself.
    :param hopeless: nothing will come of it; ``after_s`` seconds after it was first so.
    :param after_s: for how long ``hopeless`` has to hold before it is believed.
    """

    stage: Stage
    sentence: str
    event: Mapping[str, object] | None = None
    is_alarm: bool = False
    hopeless: Hopeless | None = None
    after_s: float = 0.0
