"""How a start gets on, in plain words: what is new to say of it each time somebody looks at its pod.

Knows the pod, its events, its verdict and its place in a queue as plain values, and no clock: seconds are told.
A sentence consists of words and numbers of our own and of the person's own choice, because messages of Kubernetes
name the pods of other people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.progress.endings import explain_removal, find_ending
from gpuspawner.core.progress.events import SourcedEvent, parse_events, scrub_event
from gpuspawner.core.progress.images import format_elapsed
from gpuspawner.core.progress.model import Facts, ProgressMessage, Report, Stage
from gpuspawner.core.progress.on_node import describe_on_node, list_passed_steps
from gpuspawner.core.progress.pod_status import is_bound, list_scheduling_gates, read_phase
from gpuspawner.core.progress.waiting import describe_queue, describe_setup, describe_waiting, format_time_left
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences

QUIET_PERIOD_S = 30.0
"""Seconds for which no node being free is no alarm; and after which what goes on is said again."""

_GONE_CONFIRMED_S = 5.0
"""Seconds for which a pod has to be gone: KubeSpawner makes it anew where one of that name was there."""
_MAX_SECONDS = 1e9

_STAGES_FROM_EVENTS = frozenset({Stage.QUEUED, Stage.WAITING, Stage.SCALING, Stage.SCHEDULED, Stage.PULLING})
"""Stages of which events say the most."""
_STAGES_WAITING_FOR_ROOM = frozenset({Stage.QUEUED, Stage.WAITING, Stage.SCALING})
_PERCENT_RANGES: Mapping[Stage, tuple[int, int, float]] = {
    Stage.CHECKING: (0, 5, 10.0),
    Stage.QUEUED: (5, 25, 600.0),
    Stage.WAITING: (5, 30, 300.0),
    Stage.SCALING: (10, 45, 240.0),
    Stage.SCHEDULED: (45, 50, 10.0),
    Stage.PULLING: (50, 75, 120.0),
    Stage.STARTING: (75, 90, 30.0),
    Stage.READY: (95, 95, 1.0),
    Stage.FAILED: (0, 0, 1.0),
}
"""Where the bar is in a stage at first and at last, and the seconds that two thirds of the way take."""


class Tracker:
    """One start. Feed it what is known, as often as something changes and every few seconds besides."""

    def __init__(self) -> None:
        self._percent = 0
        self._seen: Mapping[str, object] | None = None
        """The pod, as it was last there."""
        self._stage: Stage | None = None
        self._stage_since_s = 0.0
        self._schedulable_since_s: float | None = None
        self._gone_since_s: float | None = None
        self._doubt: tuple[str, float] | None = None
        """What looks hopeless, and since when."""
        self._last = ("", False)
        self._said: dict[tuple[Stage, str, bool], float] = {}
        self._steps: set[str] = set()
        """What was said of the program's start."""
        self._is_over = False

    @property
    def percent(self) -> int:
        """How far the bar has got, as of the last observation: it also moves while there is nothing new to say."""
        return self._percent

    def observe(self, facts: Facts) -> tuple[Report, ...]:
        """Return what is new to say, nothing where all is said; never raises, whatever the API sent.

        After a report that is hopeless nothing follows.
        """
        if self._is_over:
            return ()
        now_s = max(0.0, min(_MAX_SECONDS, facts.since_s))
        pod = self._select_own_pod(facts.pod, now_s=now_s)
        *before, current = self._list_messages(replace(facts, pod=pod), now_s)
        sayings = (*self._list_missed(before, current), self._confirm_failure(current, now_s))
        reports = [self._build_report(each, facts, now_s=now_s) for each in sayings]
        return tuple(filter(None, reports))

    def _list_missed(self, before: list[ProgressMessage], current: ProgressMessage) -> list[ProgressMessage]:
        """Return what was passed without a word, but nothing that came before what was said already."""
        if self._stage is Stage.READY or current.sentence in self._steps:
            return []
        said = [at for at, each in enumerate(before, 1) if each.sentence in self._steps]
        return before[max(said, default=0) :]

    def _build_report(self, saying: ProgressMessage, facts: Facts, *, now_s: float) -> Report | None:
        """Return what is to be said, None where it was already."""
        self._enter_stage(saying.stage, now_s)
        sentence = self._find_news(saying, facts, now_s=now_s)
        if not sentence:
            return None
        self._is_over = saying.stage is Stage.FAILED
        if saying.stage is Stage.STARTING:
            self._steps.add(saying.sentence)
        return Report(
            stage=saying.stage,
            sentence=sentence,
            percent=self._percent,
            raw_event=scrub_event(saying.event.raw) if saying.event else None,
            is_alarm=saying.is_alarm,
            failure=saying.failure if self._is_over else None,
            lacks_room=saying.stage in _STAGES_WAITING_FOR_ROOM and saying.lacks_room,
        )

    def _select_own_pod(self, raw: Mapping[str, object] | None, *, now_s: float) -> Mapping[str, object] | None:
        """Return the pod of this start, None for one that was there before and is on its way out."""
        pod = as_dict(raw)
        if not pod:
            return None
        metadata = as_dict(pod.get("metadata"))
        is_ending = bool(metadata.get("deletionTimestamp"))
        has_ended = read_phase(pod) in ("Failed", "Succeeded") and now_s < _GONE_CONFIRMED_S
        return None if self._seen is None and (is_ending or has_ended) else pod

    def _list_messages(self, facts: Facts, now_s: float) -> tuple[ProgressMessage, ...]:
        """Return what is to be said now, after what was passed on the way there."""
        pod = facts.pod
        known = self._seen if pod is None else pod
        if known is None:
            return (describe_setup(),)
        events = _parse_pod_events(known, facts)
        if pod is None:
            return (self._describe_gone_pod(known, events, facts=facts, now_s=now_s),)
        self._seen, self._gone_since_s = pod, None
        is_node_lost = facts.is_node_ready is False
        if (end := find_ending(pod, events, gpu_name=facts.gpu_name, is_node_lost=is_node_lost)) is not None:
            return (end,)
        if is_bound(pod):
            current = describe_on_node(facts, events)
            return (*list_passed_steps(current, events), current)
        if list_scheduling_gates(pod):
            self._schedulable_since_s = None
            return (describe_queue(pod, events, place=facts.queue),)
        if self._schedulable_since_s is None:
            self._schedulable_since_s = 0.0 if self._stage in (None, Stage.CHECKING) else now_s
        return (describe_waiting(facts, events, is_early=now_s - self._schedulable_since_s < QUIET_PERIOD_S),)

    def _describe_gone_pod(
        self, pod: Mapping[str, object], events: tuple[SourcedEvent, ...], *, facts: Facts, now_s: float
    ) -> ProgressMessage:
        if self._gone_since_s is None:
            self._gone_since_s = now_s
        if now_s - self._gone_since_s >= _GONE_CONFIRMED_S:
            return explain_removal(pod, events, is_node_lost=facts.is_node_ready is False)
        return ProgressMessage(stage=self._stage or Stage.CHECKING, sentence="")

    def _confirm_failure(self, saying: ProgressMessage, now_s: float) -> ProgressMessage:
        """Return it as the end of the start where it is hopeless, and has been for long enough."""
        hopeless = saying.failure
        if hopeless is None:
            self._doubt = None
            return saying
        at_s = now_s if saying.failed_at_s is None else saying.failed_at_s
        if self._doubt is None or self._doubt[0] != hopeless.code:
            self._doubt = (hopeless.code, at_s)
        if at_s - self._doubt[1] < saying.after_s:
            return saying
        return replace(saying, stage=Stage.FAILED, sentence=hopeless.sentence, is_alarm=True)

    def _enter_stage(self, stage: Stage, now_s: float) -> None:
        if stage is not self._stage:
            self._stage, self._stage_since_s = stage, now_s
        low, high, typical_s = _PERCENT_RANGES[stage]
        done = 1 - exp(-max(0.0, now_s - self._stage_since_s) / typical_s)
        self._percent = max(self._percent, int(low + (high - low) * done))

    def _find_news(self, saying: ProgressMessage, facts: Facts, *, now_s: float) -> str:
        """Return what to say now, empty for nothing: neither the same again, nor what was said a moment ago."""
        sentence = saying.sentence
        if sentence:
            sentence = join_sentences(
                sentence, _describe_missing_events(saying, facts), self._describe_elapsed(saying, facts, now_s=now_s)
            )
        key, last = (saying.stage, saying.sentence, saying.is_alarm), (sentence, saying.is_alarm)
        self._said = {each: at_s for each, at_s in self._said.items() if now_s - at_s < QUIET_PERIOD_S}
        if not sentence or key in self._said or (last == self._last and saying.stage is not Stage.FAILED):
            return ""
        self._said[key] = now_s
        self._last = last
        return sentence

    def _describe_elapsed(self, saying: ProgressMessage, facts: Facts, *, now_s: float) -> str:
        """Return what changes with time alone."""
        if saying.stage in (Stage.QUEUED, Stage.WAITING, Stage.SCALING):
            return format_time_left(None if facts.timeout_s is None else facts.timeout_s - now_s)
        if saying.stage is Stage.PULLING and not saying.is_alarm:
            return format_elapsed(now_s - self._stage_since_s)
        return ""


def _describe_missing_events(saying: ProgressMessage, facts: Facts) -> str:
    """Return that more may be the matter than can be told; empty where that is not so."""
    if not facts.lacks_events or saying.stage not in _STAGES_FROM_EVENTS:
        return ""
    return gettext("The hub may not read the cluster's events, so a reason may be missing here.")


def _parse_pod_events(pod: Mapping[str, object], facts: Facts) -> tuple[SourcedEvent, ...]:
    metadata, spec = as_dict(pod.get("metadata")), as_dict(pod.get("spec"))
    raw = as_dicts(list(facts.events))
    return parse_events(raw, pod_uid=as_text(metadata.get("uid")), scheduler=as_text(spec.get("schedulerName")))
