"""A pod that waits for a node, in words: what it waits for, who is ahead, whether a new node comes.

A pod that another system lets start when its turn comes, in words: Kueue's queue, or another scheduling gate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.progress.events import EventSource, SourcedEvent, find_newest_event
from gpuspawner.core.progress.model import Facts, ProgressMessage, QueuePlace, Stage, StartFailure
from gpuspawner.core.progress.pod_status import count_devices, find_condition, is_queued_by_kueue
from gpuspawner.core.progress.scheduler_events import (
    AutoscalerStatus,
    RefusalReason,
    ScaleUpState,
    SchedulerRefusals,
    parse_autoscaler_events,
    parse_refusals,
)
from gpuspawner.core.text.i18n import gettext, ngettext, translate_now
from gpuspawner.core.text.wording import add_article, join_sentences, join_with_and, make_sentence
from gpuspawner.core.units.formatting import format_rough_duration
from gpuspawner.core.verdict.verdict import Outcome, Verdict

NEVER_AFTER_S = 10.0
"""Seconds between two verdicts of NEVER that are believed: what is known of the cluster may be behind for a moment."""

_PER_MINUTE = 60
_PER_HOUR = 60
_MAX_IN_MINUTES = 90
_ROOM_REASONS = (RefusalReason.DEVICES, RefusalReason.CPU, RefusalReason.MEMORY, RefusalReason.DISK, RefusalReason.PODS)

_REPAIR_REASONS = (
    RefusalReason.VOLUME_IN_USE,
    RefusalReason.VOLUME_MISSING,
    RefusalReason.VOLUME_ZONE,
    RefusalReason.CORDONED,
    RefusalReason.NOT_READY,
)
"""What room for one more server would not change."""


def describe_waiting(facts: Facts, events: Sequence[SourcedEvent], *, is_early: bool) -> ProgressMessage:
    """Return what a pod without a node waits for.

    :param is_early: kube-scheduler has had it for a short while only, and may yet find one.
    """
    pod = facts.pod or {}
    event = find_newest_event(events, {EventSource.SCHEDULER}, reasons={"FailedScheduling"})
    message = _read_unschedulable_message(pod) or (event.message if event else "")
    grown = parse_autoscaler_events(events)
    if grown is not None and grown.is_under_way:
        return _describe_new_node(facts, grown)
    if as_text(as_dict(pod.get("status")).get("nominatedNodeName")):
        sentence = gettext("Room is being made for your server on a node.")
        return ProgressMessage(stage=Stage.WAITING, sentence=sentence, event=event)
    known = parse_refusals(message)
    if facts.verdict is not None and facts.verdict.outcome is Outcome.NEVER:
        return replace(_describe_never(facts.verdict, known, event=event), failed_at_s=facts.judged_at_s)
    if not message:
        return describe_setup()
    looked_for = _format_search(pod, facts.gpu_name)
    if is_early and not _predicts_start(facts.verdict):
        return ProgressMessage(stage=Stage.WAITING, sentence=looked_for, event=event)
    sentence = join_sentences(
        _format_reason(facts, known) or looked_for,
        _format_servers_ahead(facts.verdict),
        "" if is_early else _format_no_new_node(grown),
    )
    told = grown.event if grown and event is None else event
    return ProgressMessage(
        stage=Stage.WAITING,
        sentence=sentence,
        event=told,
        is_alarm=not is_early,
        lacks_room=_predicts_start(facts.verdict) or not _needs_mending(known),
    )


def _needs_mending(known: SchedulerRefusals) -> bool:
    """Tell whether more room would not help: no node is short of anything, and something else is the matter."""
    return any(each in known.counts for each in _REPAIR_REASONS) and not any(
        each in known.counts for each in _ROOM_REASONS
    )


def describe_setup() -> ProgressMessage:
    """Return that nobody has said anything of the start yet."""
    return ProgressMessage(stage=Stage.CHECKING, sentence=gettext("Your server is being set up."))


def format_time_left(remaining_s: float | None) -> str:
    """Return for how long a start goes on waiting at most; empty where nobody knows."""
    if remaining_s is None or remaining_s <= 0:
        return ""
    minutes = ceil(remaining_s / _PER_MINUTE)
    if remaining_s < _PER_MINUTE:
        return gettext("Your server waits for less than a minute more.")
    if minutes < _MAX_IN_MINUTES:
        return gettext("Your server waits for {minutes} min more at most.", minutes=minutes)
    return gettext("Your server waits for {hours} h more at most.", hours=ceil(minutes / _PER_HOUR))


def _read_unschedulable_message(pod: Mapping[str, object]) -> str:
    scheduled = find_condition(pod, "PodScheduled")
    return as_text(scheduled.get("message")) if scheduled.get("reason") == "Unschedulable" else ""


def _predicts_start(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome in (Outcome.WAITS, Outcome.AFTER_SCALE_UP)


def _describe_new_node(facts: Facts, grown: AutoscalerStatus) -> ProgressMessage:
    if grown.state is ScaleUpState.NODE_FOUND:
        sentence = gettext("A node was found that your server will have in a moment.")
        return ProgressMessage(stage=Stage.WAITING, sentence=sentence, event=grown.event)
    minutes = facts.verdict.minutes if facts.verdict else None
    sentence = gettext("A new node is being added for your server.")
    return ProgressMessage(
        stage=Stage.SCALING, sentence=join_sentences(sentence, _format_usual_duration(minutes)), event=grown.event
    )


def _format_usual_duration(minutes: float | None) -> str:
    return "" if minutes is None else gettext("That usually takes {duration}.", duration=format_rough_duration(minutes))


def _describe_never(verdict: Verdict, known: SchedulerRefusals, *, event: SourcedEvent | None) -> ProgressMessage:
    if RefusalReason.VOLUME_ZONE in known.counts:
        code, sentence = "volume_conflict", _format_refusal(known, RefusalReason.VOLUME_ZONE, gpu_name="")
    else:
        code = "never_fits"
        sentence = make_sentence(translate_now(verdict.reason)) or gettext(
            "No node of the cluster would ever take your server."
        )
    hopeless = StartFailure(code=code, sentence=sentence)
    return ProgressMessage(
        stage=Stage.WAITING,
        sentence=gettext("A node for your server is being looked for."),
        event=event,
        failure=hopeless,
        after_s=NEVER_AFTER_S,
    )


def _format_search(pod: Mapping[str, object], gpu_name: str) -> str:
    if not gpu_name:
        return gettext("A node for your server is being looked for.")
    return gettext("A node with {gpus} free is being looked for.", gpus=_format_gpus(pod, gpu_name))


def _format_gpus(pod: Mapping[str, object], gpu_name: str) -> str:
    return gettext("{number} × {gpu}", number=max(1, count_devices(pod)), gpu=gpu_name)


def _format_reason(facts: Facts, known: SchedulerRefusals) -> str:
    verdict = facts.verdict
    if verdict is not None and verdict.outcome is Outcome.AFTER_SCALE_UP:
        return join_sentences(gettext("Your server waits for a new node."), _format_usual_duration(verdict.minutes))
    if verdict is not None and verdict.outcome is Outcome.WAITS and verdict.reason:
        # Worded to stand beside the GPU type, which the page that waits shows nowhere else.
        wanted = _format_waits_for(_format_gpus(facts.pod or {}, facts.gpu_name), 0) if facts.gpu_name else ""
        return join_sentences(wanted, make_sentence(translate_now(verdict.reason)))
    names = [_format_shortage(each, facts) for each in _ROOM_REASONS if each in known.counts]
    if names:
        number = max(known.counts.get(each, 0) for each in _ROOM_REASONS)
        return join_sentences(_format_waits_for(join_with_and(names), number), _format_other_zone(known))
    return next(
        (_format_refusal(known, each, gpu_name=facts.gpu_name) for each in RefusalReason if each in known.counts), ""
    )


def _format_waits_for(names: str, nodes: int) -> str:
    if not nodes:
        return gettext("Your server waits for {names}.", names=names)
    return ngettext(
        "Your server waits for {names}: {number} node has too little left.",
        "Your server waits for {names}: {number} nodes have too little left.",
        number=nodes,
        names=names,
    )


def _format_other_zone(known: SchedulerRefusals) -> str:
    if RefusalReason.VOLUME_ZONE not in known.counts:
        return ""
    return gettext("Other nodes cannot reach a disk of your server: it is in another zone.")


def _format_shortage(shortcoming: RefusalReason, facts: Facts) -> str:
    match shortcoming:
        case RefusalReason.DEVICES if facts.gpu_name:
            return _format_gpus(facts.pod or {}, facts.gpu_name)
        case RefusalReason.DEVICES:
            return gettext("a free device")
        case RefusalReason.CPU:
            return gettext("CPU")
        case RefusalReason.MEMORY:
            return gettext("memory")
        case RefusalReason.DISK:
            return gettext("disk space")
        case _:
            return gettext("a place on a node")


def _format_refusal(known: SchedulerRefusals, shortcoming: RefusalReason, *, gpu_name: str) -> str:
    number = known.counts.get(shortcoming, 0)
    match shortcoming:
        case RefusalReason.VOLUME_IN_USE:
            return gettext("A disk of your server is still in use by another server.")
        case RefusalReason.VOLUME_LIMIT:
            return gettext("The nodes that would do cannot take one more disk.")
        case RefusalReason.VOLUME_MISSING:
            return gettext("A disk of your server is not there yet.")
        case RefusalReason.VOLUME_ZONE:
            return gettext("A disk of your server is in a zone where no node would do.")
        case RefusalReason.CORDONED:
            return ngettext(
                "{number} node takes no new servers right now.",
                "{number} nodes take no new servers right now.",
                number=max(1, number),
            )
        case RefusalReason.NOT_READY:
            return gettext("The nodes that would do are not ready.")
        case RefusalReason.OTHER_PODS:
            return gettext("Other servers keep yours off the nodes that would do.")
        case RefusalReason.TAINTED:
            return gettext("The nodes that are there are reserved for other work.")
        case _ if gpu_name:
            return gettext("There is no node with {gpus} right now.", gpus=add_article(gpu_name))
        case _:
            return gettext("There is no node right now that would do.")


def _format_servers_ahead(verdict: Verdict | None) -> str:
    if verdict is None or verdict.ahead is None or not _predicts_start(verdict):
        return ""
    if verdict.ahead == 0:
        return gettext("Yours is next.")
    return ngettext("{number} server is ahead of yours.", "{number} servers are ahead of yours.", number=verdict.ahead)


def _format_no_new_node(grown: AutoscalerStatus | None) -> str:
    match grown.state if grown else None:
        case ScaleUpState.AT_LIMIT:
            return gettext("No new node can be added: there are as many as there may be.")
        case ScaleUpState.OUT_OF_QUOTA:
            return gettext("No new node can be added: the cluster's quota with its provider is used up.")
        case ScaleUpState.OUT_OF_STOCK:
            return gettext("No new node can be added: the provider has no such machine right now.")
        case ScaleUpState.BACKING_OFF:
            return gettext("Adding a node failed; it is tried again later.")
        case ScaleUpState.NOT_READY:
            return gettext("No new node can be added right now.")
        case _:
            return ""


_TOO_LARGE_REASONS = frozenset({"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Inadmissible"})
_NEVER_ADMITTED = re.compile(
    r"> maximum capacity|unavailable in ClusterQueue|doesn't (?:match node affinity|exist)|is inactive"
)
_QUEUE_EVENTS = frozenset({"Pending", "CreatedWorkload", "Stopped", "ErrWorkloadCompose", "EvictedDueToPreempted"})


def describe_queue(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, place: QueuePlace | None
) -> ProgressMessage:
    """Return where in a queue a pod is that has scheduling gates."""
    if not is_queued_by_kueue(pod):
        return ProgressMessage(
            stage=Stage.QUEUED, sentence=gettext("Another system decides when your server may start.")
        )
    event = find_newest_event(events, {EventSource.KUEUE}, reasons=_QUEUE_EVENTS)
    known = place or QueuePlace()
    if event is not None and event.reason == "ErrWorkloadCompose":
        sentence = gettext("The queue cannot take your server as it is set up.")
        return ProgressMessage(stage=Stage.QUEUED, sentence=sentence, event=event, is_alarm=True)
    said = event.message if event is not None and event.reason == "Pending" else ""
    is_alarm = known.reason in _TOO_LARGE_REASONS or bool(_NEVER_ADMITTED.search(said))
    sentence = join_sentences(
        _format_queue(known.queue), _format_queue_position(known.position), _format_too_large() if is_alarm else ""
    )
    return ProgressMessage(stage=Stage.QUEUED, sentence=sentence, event=event, is_alarm=is_alarm)


def _format_queue(queue: str) -> str:
    if queue:
        return gettext("Your server waits in the queue {queue}.", queue=queue)
    return gettext("Your server waits in the queue.")


def _format_queue_position(position: int | None) -> str:
    if position is None:
        return ""
    if position <= 0:
        return gettext("It is next.")
    return ngettext("{number} is ahead of it.", "{number} are ahead of it.", number=position)


def _format_too_large() -> str:
    return gettext("The queue has no place for it as things are.")
