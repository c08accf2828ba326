"""Follows one start and reports what is new at each observation.

The caller passes in the pod, its events, its place in the queue and the time, so this module needs no API and no clock.
Sentences never quote messages from Kubernetes, because these can name other users' pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.core.progress.endings import explain_removal, find_ending
from gpuspawner.core.progress.events import EventSource, SourcedEvent, find_newest_event, parse_events, scrub_event
from gpuspawner.core.progress.images import format_elapsed
from gpuspawner.core.progress.model import Facts, ProgressMessage, Report, Stage
from gpuspawner.core.progress.on_node import add_hook_error, describe_on_node, list_passed_steps, read_hook_error
from gpuspawner.core.progress.pod_status import (
    is_bound,
    is_untouched,
    list_scheduling_gates,
    read_phase,
    read_scheduler,
)
from gpuspawner.core.progress.waiting import describe_queue, describe_setup, describe_waiting, format_time_left
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences

QUIET_PERIOD_S = 30.0
"""A duration in seconds with three uses:

- "kube-scheduler finds no node" becomes an alarm if the pod has had no scheduling gates for this long.
- The tracker does not repeat a message within this time.
- The pod's scheduler counts as idle if it has set no node and no condition and sent no event for this long.
"""

_GONE_CONFIRMED_S = 5.0
"""A duration in seconds with two uses:

- A pod that is missing for this long counts as deleted; before that, KubeSpawner may be replacing the pod.
- A finished pod that the hub sees earlier than this in a start, before any other pod, is left from an earlier start.
"""
_MAX_SECONDS = 1e9

_STAGES_FROM_EVENTS = frozenset({Stage.QUEUED, Stage.WAITING, Stage.SCALING, Stage.SCHEDULED, Stage.PULLING})
"""Stages in which events may say why the pod waits. If the hub cannot read events, the message says that a reason
may be missing."""
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
"""Stage → first and last percent of the progress bar in this stage, and seconds until the bar has covered about two
thirds of that range."""


class Tracker:
    """Follows one start of a server. Call :meth:`observe` whenever something changes, and every few seconds.

    :param is_resumed: whether an earlier process of the hub began the start and created the pod. If True, a terminating
        or finished pod belongs to this start, and a missing pod has been deleted.
    """

    def __init__(self, *, is_resumed: bool = False) -> None:
        self._is_resumed = is_resumed
        self._percent = 0
        self._last_pod: Mapping[str, object] | None = None
        self._stage: Stage | None = None
        self._stage_since_s = 0.0
        self._schedulable_since_s: float | None = None
        self._untouched_since_s: float | None = None
        self._idle_scheduler = ""
        self._gone_since_s: float | None = None
        self._hook_error = ""
        self._suspected: tuple[str, float] | None = None
        """(code of a possible failure, seconds after the start's beginning when the failure began), or None.

        The failure ends the start only if it lasts."""
        self._last_reported = ("", False)
        self._recent: dict[tuple[Stage, str, bool], float] = {}
        self._reported_steps: set[str] = set()
        self._is_over = False

    @property
    def percent(self) -> int:
        """Position of the progress bar in percent at the last observation. It grows even without a new message."""
        return self._percent

    @property
    def idle_scheduler(self) -> str:
        """Name of the pod's scheduler if it has done nothing visible for the pod for 30 s; else empty."""
        return self._idle_scheduler

    def observe(self, facts: Facts) -> tuple[Report, ...]:
        """Return reports with the messages that the user has not seen yet, often none; never raises.

        After a report with a failure, each further call returns no reports.
        """
        if self._is_over:
            return ()
        now_s = max(0.0, min(_MAX_SECONDS, facts.since_s))
        pod = self._select_own_pod(facts.pod, now_s=now_s)
        *before, current = self._list_messages(replace(facts, pod=pod), now_s)
        messages = (*self._list_missed(before, current), self._confirm_failure(current, now_s))
        reports = [self._build_report(each, facts, now_s=now_s) for each in messages]
        return tuple(filter(None, reports))

    def _list_missed(self, before: list[ProgressMessage], current: ProgressMessage) -> list[ProgressMessage]:
        if self._stage is Stage.READY or current.sentence in self._reported_steps:
            return []
        reported = [at for at, each in enumerate(before, 1) if each.sentence in self._reported_steps]
        return before[max(reported, default=0) :]

    def _build_report(self, message: ProgressMessage, facts: Facts, *, now_s: float) -> Report | None:
        self._enter_stage(message.stage, now_s)
        sentence = self._find_news(message, facts, now_s=now_s)
        if not sentence:
            return None
        self._is_over = message.stage is Stage.FAILED
        if message.stage is Stage.STARTING:
            self._reported_steps.add(message.sentence)
        return Report(
            stage=message.stage,
            sentence=sentence,
            status=message.sentence,
            percent=self._percent,
            raw_event=scrub_event(message.event.raw) if message.event else None,
            is_alarm=message.is_alarm,
            failure=message.failure if self._is_over else None,
            lacks_room=message.stage in _STAGES_WAITING_FOR_ROOM and message.lacks_room,
            detail=join_sentences(message.detail or message.sentence, _describe_missing_events(message, facts)),
            place=message.place,
            since_s=now_s,
            admin_text=message.admin_text,
        )

    def _select_own_pod(self, raw: Mapping[str, object] | None, *, now_s: float) -> Mapping[str, object] | None:
        """Return the observed pod, or None if there is none, or if the pod is left from an earlier start.

        A pod is left from an earlier start if this start has had no pod yet, and the pod is terminating, or is
        already finished in the start's first :data:`_GONE_CONFIRMED_S` seconds.
        """
        pod = as_dict(raw)
        if not pod:
            return None
        metadata = as_dict(pod.get("metadata"))
        is_ending = bool(metadata.get("deletionTimestamp"))
        has_ended = read_phase(pod) in ("Failed", "Succeeded") and now_s < _GONE_CONFIRMED_S
        is_first = self._last_pod is None and not self._is_resumed
        return None if is_first and (is_ending or has_ended) else pod

    def _list_messages(self, facts: Facts, now_s: float) -> tuple[ProgressMessage, ...]:
        pod = facts.pod
        known = self._last_pod if pod is None else pod
        if known is None and not self._is_resumed:
            return (describe_setup(),)
        known = known or {}
        uid = as_text(as_dict(known.get("metadata")).get("uid"))
        events = parse_events(as_dicts(list(facts.events)), pod_uid=uid, scheduler=read_scheduler(known))
        self._hook_error = read_hook_error(known) or self._hook_error
        if self._hook_error:
            events = add_hook_error(events, self._hook_error)
        self._idle_scheduler = self._find_idle_scheduler(pod, events, now_s=now_s)
        if pod is None:
            return (self._describe_gone_pod(known, events, facts=facts, now_s=now_s),)
        self._last_pod, self._gone_since_s = pod, None
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
        is_early = now_s - self._schedulable_since_s < QUIET_PERIOD_S
        return (describe_waiting(facts, events, is_early=is_early, idle_scheduler=self._idle_scheduler),)

    def _find_idle_scheduler(
        self, pod: Mapping[str, object] | None, events: tuple[SourcedEvent, ...], *, now_s: float
    ) -> str:
        if pod is None or not is_untouched(pod) or find_newest_event(events, {EventSource.SCHEDULER}) is not None:
            self._untouched_since_s = None
            return ""
        if self._untouched_since_s is None:
            self._untouched_since_s = now_s
        return read_scheduler(pod) if now_s - self._untouched_since_s >= QUIET_PERIOD_S else ""

    def _describe_gone_pod(
        self, pod: Mapping[str, object], events: tuple[SourcedEvent, ...], *, facts: Facts, now_s: float
    ) -> ProgressMessage:
        if self._gone_since_s is None:
            self._gone_since_s = now_s
        if now_s - self._gone_since_s >= _GONE_CONFIRMED_S:
            return explain_removal(pod, events, is_node_lost=facts.is_node_ready is False)
        return ProgressMessage(stage=self._stage or Stage.CHECKING, sentence="")

    def _confirm_failure(self, message: ProgressMessage, now_s: float) -> ProgressMessage:
        failure = message.failure
        if failure is None:
            self._suspected = None
            return message
        at_s = now_s if message.failed_at_s is None else message.failed_at_s
        if self._suspected is None or self._suspected[0] != failure.code:
            self._suspected = (failure.code, at_s)
        if at_s - self._suspected[1] < message.after_s:
            return message
        return replace(message, stage=Stage.FAILED, sentence=failure.sentence, detail="", place="", is_alarm=True)

    def _enter_stage(self, stage: Stage, now_s: float) -> None:
        if stage is not self._stage:
            has_waited = self._is_resumed and self._stage is None and stage in _STAGES_WAITING_FOR_ROOM
            self._stage, self._stage_since_s = stage, 0.0 if has_waited else now_s
        low, high, typical_s = _PERCENT_RANGES[stage]
        done = 1 - exp(-max(0.0, now_s - self._stage_since_s) / typical_s)
        self._percent = max(self._percent, int(low + (high - low) * done))

    def _find_news(self, message: ProgressMessage, facts: Facts, *, now_s: float) -> str:
        sentence = message.sentence
        if sentence:
            sentence = join_sentences(
                sentence, _describe_missing_events(message, facts), self._describe_elapsed(message, facts, now_s=now_s)
            )
        key, last = (message.stage, message.sentence, message.is_alarm), (sentence, message.is_alarm)
        self._recent = {each: at_s for each, at_s in self._recent.items() if now_s - at_s < QUIET_PERIOD_S}
        if not sentence or key in self._recent or (last == self._last_reported and message.stage is not Stage.FAILED):
            return ""
        self._recent[key] = now_s
        self._last_reported = last
        return sentence

    def _describe_elapsed(self, message: ProgressMessage, facts: Facts, *, now_s: float) -> str:
        if message.stage in (Stage.QUEUED, Stage.WAITING, Stage.SCALING):
            return format_time_left(None if facts.timeout_s is None else facts.timeout_s - now_s)
        if message.stage is Stage.PULLING and not message.is_alarm:
            return format_elapsed(now_s - self._stage_since_s)
        return ""


def _describe_missing_events(message: ProgressMessage, facts: Facts) -> str:
    if not facts.lacks_events or message.stage not in _STAGES_FROM_EVENTS:
        return ""
    return gettext("The hub may not read the cluster's events, so a reason may be missing here.")
