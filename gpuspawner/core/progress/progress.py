"""How a start gets on, in plain words: what is new to say of it each time somebody looks at its pod.

Knows the pod, its events, its verdict and its place in a queue as plain values, and no clock: seconds are told.
A sentence consists of words and numbers of our own and of the person's own choice, because messages of Kubernetes
name the pods of other people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp

from gpuspawner.core.progress.endings import ending, taken_away
from gpuspawner.core.progress.event_sources import Event, events_of
from gpuspawner.core.progress.node_steps import on_node, passed
from gpuspawner.core.progress.pod_status import gates, is_bound, phase
from gpuspawner.core.progress.pull_text import so_far
from gpuspawner.core.progress.queue_text import queued
from gpuspawner.core.progress.scrubbing import scrubbed
from gpuspawner.core.progress.stages import Facts, Report, Saying, Stage
from gpuspawner.core.progress.waiting_text import being_set_up, left_sentence, waiting
from gpuspawner.core.rawjson import mapping, mappings, text
from gpuspawner.core.text.language import gettext
from gpuspawner.core.text.sentences import paragraph

CALM_S = 30.0
"""Seconds for which no node being free is no alarm; and after which what goes on is said again."""

_GONE_AFTER_S = 5.0
"""Seconds for which a pod has to be gone: KubeSpawner makes it anew where one of that name was there."""
_LONGEST_S = 1e9

_FROM_EVENTS = frozenset({Stage.QUEUED, Stage.WAITING, Stage.SCALING, Stage.SCHEDULED, Stage.PULLING})
"""Stages of which events say the most."""
_FOR_ROOM = frozenset({Stage.QUEUED, Stage.WAITING, Stage.SCALING})
_BANDS: Mapping[Stage, tuple[int, int, float]] = {
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


class Progress:
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
        now_s = max(0.0, min(_LONGEST_S, facts.since_s))
        pod = self._own(facts.pod, now_s=now_s)
        *before, current = self._sayings(replace(facts, pod=pod), now_s)
        sayings = (*self._missed(before, current), self._confirmed(current, now_s))
        reports = [self._report(each, facts, now_s=now_s) for each in sayings]
        return tuple(filter(None, reports))

    def _missed(self, before: list[Saying], current: Saying) -> list[Saying]:
        """Return what was passed without a word, but nothing that came before what was said already."""
        if self._stage is Stage.READY or current.sentence in self._steps:
            return []
        said = [at for at, each in enumerate(before, 1) if each.sentence in self._steps]
        return before[max(said, default=0) :]

    def _report(self, saying: Saying, facts: Facts, *, now_s: float) -> Report | None:
        """Return what is to be said, None where it was already."""
        self._enter(saying.stage, now_s)
        sentence = self._news(saying, facts, now_s=now_s)
        if not sentence:
            return None
        self._is_over = saying.stage is Stage.FAILED
        if saying.stage is Stage.STARTING:
            self._steps.add(saying.sentence)
        return Report(
            stage=saying.stage,
            sentence=sentence,
            percent=self._percent,
            raw_event=scrubbed(saying.event.raw) if saying.event else None,
            is_alarm=saying.is_alarm,
            hopeless=saying.hopeless if self._is_over else None,
            lacks_room=saying.stage in _FOR_ROOM and saying.lacks_room,
        )

    def _own(self, raw: Mapping[str, object] | None, *, now_s: float) -> Mapping[str, object] | None:
        """Return the pod of this start, None for one that was there before and is on its way out."""
        pod = mapping(raw)
        if not pod:
            return None
        metadata = mapping(pod.get("metadata"))
        is_ending = bool(metadata.get("deletionTimestamp"))
        has_ended = phase(pod) in ("Failed", "Succeeded") and now_s < _GONE_AFTER_S
        return None if self._seen is None and (is_ending or has_ended) else pod

    def _sayings(self, facts: Facts, now_s: float) -> tuple[Saying, ...]:
        """Return what is to be said now, after what was passed on the way there."""
        pod = facts.pod
        known = self._seen if pod is None else pod
        if known is None:
            return (being_set_up(),)
        events = _events(known, facts)
        if pod is None:
            return (self._gone(known, events, facts=facts, now_s=now_s),)
        self._seen, self._gone_since_s = pod, None
        is_node_lost = facts.is_node_ready is False
        if (end := ending(pod, events, gpu_name=facts.gpu_name, is_node_lost=is_node_lost)) is not None:
            return (end,)
        if is_bound(pod):
            current = on_node(facts, events)
            return (*passed(current, events), current)
        if gates(pod):
            self._schedulable_since_s = None
            return (queued(pod, events, place=facts.queue),)
        if self._schedulable_since_s is None:
            self._schedulable_since_s = 0.0 if self._stage in (None, Stage.CHECKING) else now_s
        return (waiting(facts, events, is_early=now_s - self._schedulable_since_s < CALM_S),)

    def _gone(self, pod: Mapping[str, object], events: tuple[Event, ...], *, facts: Facts, now_s: float) -> Saying:
        if self._gone_since_s is None:
            self._gone_since_s = now_s
        if now_s - self._gone_since_s >= _GONE_AFTER_S:
            return taken_away(pod, events, is_node_lost=facts.is_node_ready is False)
        return Saying(stage=self._stage or Stage.CHECKING, sentence="")

    def _confirmed(self, saying: Saying, now_s: float) -> Saying:
        """Return it as the end of the start where it is hopeless, and has been for long enough."""
        hopeless = saying.hopeless
        if hopeless is None:
            self._doubt = None
            return saying
        at_s = now_s if saying.at_s is None else saying.at_s
        if self._doubt is None or self._doubt[0] != hopeless.code:
            self._doubt = (hopeless.code, at_s)
        if at_s - self._doubt[1] < saying.after_s:
            return saying
        return replace(saying, stage=Stage.FAILED, sentence=hopeless.sentence, is_alarm=True)

    def _enter(self, stage: Stage, now_s: float) -> None:
        if stage is not self._stage:
            self._stage, self._stage_since_s = stage, now_s
        low, high, typical_s = _BANDS[stage]
        done = 1 - exp(-max(0.0, now_s - self._stage_since_s) / typical_s)
        self._percent = max(self._percent, int(low + (high - low) * done))

    def _news(self, saying: Saying, facts: Facts, *, now_s: float) -> str:
        """Return what to say now, empty for nothing: neither the same again, nor what was said a moment ago."""
        sentence = saying.sentence
        if sentence:
            sentence = paragraph(sentence, _untold(saying, facts), self._in_time(saying, facts, now_s=now_s))
        key, last = (saying.stage, saying.sentence, saying.is_alarm), (sentence, saying.is_alarm)
        self._said = {each: at_s for each, at_s in self._said.items() if now_s - at_s < CALM_S}
        if not sentence or key in self._said or (last == self._last and saying.stage is not Stage.FAILED):
            return ""
        self._said[key] = now_s
        self._last = last
        return sentence

    def _in_time(self, saying: Saying, facts: Facts, *, now_s: float) -> str:
        """Return what changes with time alone."""
        if saying.stage in (Stage.QUEUED, Stage.WAITING, Stage.SCALING):
            return left_sentence(None if facts.timeout_s is None else facts.timeout_s - now_s)
        if saying.stage is Stage.PULLING and not saying.is_alarm:
            return so_far(now_s - self._stage_since_s)
        return ""


def _untold(saying: Saying, facts: Facts) -> str:
    """Return that more may be the matter than can be told; empty where that is not so."""
    if not facts.lacks_events or saying.stage not in _FROM_EVENTS:
        return ""
    return gettext("The hub may not read the cluster's events, so a reason may be missing here.")


def _events(pod: Mapping[str, object], facts: Facts) -> tuple[Event, ...]:
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    raw = mappings(list(facts.events))
    return events_of(raw, pod_uid=text(metadata.get("uid")), scheduler=text(spec.get("schedulerName")))
