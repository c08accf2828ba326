"""How a start gets on, in plain words: what is new to say of it each time somebody looks at its pod.

Knows the pod, its events, its verdict and its place in a queue as plain values, and no clock: seconds are told.
A sentence consists of words and numbers of our own and of the person's own choice, because messages of Kubernetes
name the pods of other people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuspawner.core.stages import HOPELESS_CODES, Hopeless, QueuePlace, Stage
from gpuspawner.core.verdict import Verdict

__all__ = ["HOPELESS_CODES", "Facts", "Hopeless", "Progress", "QueuePlace", "Report", "Stage", "Verdict", "scrubbed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a start at one moment.

    :param pod: as Kubernetes' API sends it (v1 Pod in JSON), None before it exists and after it has gone.
    :param events: those of the pod (v1 Event in JSON), oldest first; of other pods of its name they are left out.
    :param since_s: seconds since the start began.
    :param timeout_s: seconds after which the start is given up, counted like ``since_s``; None for never, or unknown.
    :param verdict: what becomes of the pod as it waits (:func:`gpuspawner.core.verdict.verdict`), None when unknown.
    :param queue: its place in Kueue's queue, None when unknown.
    :param gpu_name: what people call the GPU type chosen, empty for none.
    :param is_node_ready: whether the node it is bound to says that it is well, None when unknown.
    """

    pod: Mapping[str, object] | None
    events: Sequence[Mapping[str, object]] = ()
    since_s: float = 0.0
    timeout_s: float | None = None
    verdict: Verdict | None = None
    queue: QueuePlace | None = None
    gpu_name: str = ""
    is_node_ready: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something new to say.

    :param sentence: for people, in the language spoken when it was observed.
    :param percent: for the bar, 0 to 95; never less than in the report before.
    :param raw_event: the event it rests on, fit to be shown (see :func:`scrubbed`); None where there is none.
    :param is_alarm: something is wrong that may or may not mend itself.
    :param hopeless: why the start is to be ended now; the stage is FAILED then.
    """

    stage: Stage
    sentence: str
    percent: int
    raw_event: Mapping[str, object] | None = None
    is_alarm: bool = False
    hopeless: Hopeless | None = None


class Progress:
    """One start. Feed it what is known, as often as something changes and every few seconds besides."""

    def __init__(self) -> None:
        self._percent = 0

    @property
    def percent(self) -> int:
        """How far the bar has got, as of the last observation: it also moves while there is nothing new to say."""
        return self._percent

    def observe(self, facts: Facts) -> tuple[Report, ...]:
        """Return what is new to say, nothing where all is said; never raises, whatever the API sent."""
        if self._percent:
            return ()
        self._percent = 1
        return (Report(stage=Stage.CHECKING, sentence="Your server is being prepared.", percent=self._percent),)


def scrubbed(event: Mapping[str, object]) -> dict[str, object]:
    """Return an event as its own person may see it: without what may name other people's pods or secrets.

    What it says is kept where the form of the message is known, and left out otherwise.
    """
    return {key: event[key] for key in ("type", "reason") if key in event}
