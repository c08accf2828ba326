"""Describes what a pod without a node waits for: capacity, a new node, or a scheduling gate such as Kueue's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from gpuspawner.core.catalog.kueue import PRIORITY_LABEL, QueueReason
from gpuspawner.core.json_access import as_dict, as_message, as_text, find_condition
from gpuspawner.core.progress.events import EventSource, SourcedEvent, find_newest_event, parse_time
from gpuspawner.core.progress.model import Facts, ProgressMessage, QueuePlace, Stage, StartFailure
from gpuspawner.core.progress.pod_status import count_devices, is_queued_by_kueue
from gpuspawner.core.progress.scheduler_events import (
    AutoscalerStatus,
    RefusalReason,
    Refusals,
    ScaleUpState,
    list_autoscaler_statuses,
    parse_refusals,
)
from gpuspawner.core.text.i18n import gettext, ngettext, translate_now
from gpuspawner.core.text.wording import add_article, join_sentences, join_with_and, make_clause, make_sentence
from gpuspawner.core.units.duration import format_rough_duration
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_missing_node, format_new_node

NEVER_AFTER_S = 10.0
"""If the verdict stays NEVER (the pod can never run) for this many seconds, the hub ends the start. The hub waits this
long because its data about the cluster may be old."""

_PER_MINUTE = 60
_PER_HOUR = 60
_MAX_IN_MINUTES = 90
_NEW_NODE_MINUTES = 10.0
"""Minutes until a node that an autoscaler adds counts as overdue, if neither the node pool nor the GPU type says how
long that takes."""
_ROOM_REASONS = (RefusalReason.DEVICES, RefusalReason.CPU, RefusalReason.MEMORY, RefusalReason.DISK, RefusalReason.PODS)

_REPAIR_REASONS = (
    RefusalReason.VOLUME_IN_USE,
    RefusalReason.VOLUME_MISSING,
    RefusalReason.VOLUME_ZONE,
    RefusalReason.CORDONED,
    RefusalReason.NOT_READY,
)
"""Reasons why kube-scheduler finds no node for a pod. More free capacity does not help in these cases: the state of a
volume or a node must change first."""


def describe_waiting(
    facts: Facts, events: Sequence[SourcedEvent], *, is_early: bool, idle_scheduler: str = ""
) -> ProgressMessage:
    """Return the message that says what a pod without a node waits for.

    :param is_early: whether kube-scheduler has known the pod only for a short time and may still find a node.
    :param idle_scheduler: name of the pod's scheduler if the pod has waited 30 s without any trace of a scheduler;
        empty otherwise.
    """
    pod = facts.pod or {}
    event = find_newest_event(events, {EventSource.SCHEDULER}, reasons={"FailedScheduling"})
    message = _read_unschedulable_message(pod) or (event.message if event else "")
    statuses = list_autoscaler_statuses(events)
    for status in statuses:
        if status.is_under_way and not _is_overdue(status, facts):
            return _describe_new_node(facts, status)
    # Prefer a report that says more than kube-scheduler does.
    scale_up = min(statuses, key=lambda status: status.state is ScaleUpState.NO_POOL, default=None)
    if as_text(as_dict(pod.get("status")).get("nominatedNodeName")):
        sentence = gettext("Making room for your server on a node.")
        return ProgressMessage(stage=Stage.WAITING, sentence=sentence, event=event)
    refusals = parse_refusals(message)
    if facts.verdict is not None and facts.verdict.outcome is Outcome.NEVER:
        return replace(_describe_never(facts.verdict, refusals, event=event), failed_at_s=facts.judged_at_s)
    if not message:
        return _describe_idle_scheduler(idle_scheduler) if idle_scheduler else describe_setup()
    search_sentence = _format_search(pod, facts.gpu_name)
    needs_new_node = facts.verdict is not None and facts.verdict.may_add_node
    if is_early and not (_predicts_start(facts.verdict) or needs_new_node):
        return ProgressMessage(stage=Stage.WAITING, sentence=search_sentence, event=event)
    is_overdue = scale_up is not None and (scale_up.is_under_way or scale_up.state is ScaleUpState.NODES_FAIL)
    reason = _format_reason(facts, refusals, is_answered=scale_up is not None, is_overdue=is_overdue) or search_sentence
    place = _format_servers_ahead(facts.verdict)
    no_new_node = "" if is_early else _format_no_new_node(scale_up)
    shown_event = scale_up.event if scale_up and event is None else event
    return ProgressMessage(
        stage=Stage.WAITING,
        sentence=join_sentences(reason, place, no_new_node),
        detail=join_sentences(_format_bare_reason(facts.verdict) or reason, no_new_node),
        place=place,
        event=shown_event,
        is_alarm=not is_early,
        lacks_room=_predicts_start(facts.verdict) or not _needs_repair(refusals),
    )


def _is_overdue(status: AutoscalerStatus, facts: Facts) -> bool:
    """Return whether an autoscaler's node has not taken the pod in the time that a new node usually needs."""
    created = parse_time(as_text(as_dict((facts.pod or {}).get("metadata")).get("creationTimestamp")))
    since = parse_time(status.since)
    if created is None or since is None:
        return False
    predicted = facts.verdict.minutes if facts.verdict else None
    minutes = max(predicted or 0.0, facts.new_node_minutes or 0.0) or _NEW_NODE_MINUTES
    # The start begins shortly before the API server creates the pod.
    return facts.since_s - (since - created).total_seconds() >= _PER_MINUTE * minutes


def _describe_idle_scheduler(name: str) -> ProgressMessage:
    sentence = gettext("The scheduler {name} hasn't looked at your server yet. It may not be running.", name=name)
    return ProgressMessage(stage=Stage.WAITING, sentence=sentence, is_alarm=True, lacks_room=False)


def _needs_repair(refusals: Refusals) -> bool:
    return any(each in refusals for each in _REPAIR_REASONS) and not any(each in refusals for each in _ROOM_REASONS)


def describe_setup() -> ProgressMessage:
    """Return the message that the server is being set up, for the time before there is other information."""
    return ProgressMessage(stage=Stage.CHECKING, sentence=gettext("Your server is being set up."))


def format_time_left(remaining_s: float | None) -> str:
    """Return a sentence that says how much longer the server waits at most; "" if this is unknown or the time is over.

    :param remaining_s: seconds until the hub gives up; None when unknown.
    """
    if remaining_s is None or remaining_s <= 0:
        return ""
    minutes = ceil(remaining_s / _PER_MINUTE)
    if remaining_s < _PER_MINUTE:
        return gettext("Gives up in less than a minute.")
    if minutes < _MAX_IN_MINUTES:
        return gettext("Gives up in {minutes} min.", minutes=minutes)
    return gettext("Gives up in {hours} h.", hours=ceil(minutes / _PER_HOUR))


def _read_unschedulable_message(pod: Mapping[str, object]) -> str:
    scheduled = find_condition(pod, "PodScheduled")
    return as_message(scheduled.get("message")) if scheduled.get("reason") == "Unschedulable" else ""


def _predicts_start(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome in (Outcome.WAITS, Outcome.AFTER_SCALE_UP)


def _describe_new_node(facts: Facts, scale_up: AutoscalerStatus) -> ProgressMessage:
    if scale_up.state is ScaleUpState.NODE_FOUND:
        sentence = gettext("Found a node. Your server will be placed on it in a moment.")
        return ProgressMessage(stage=Stage.WAITING, sentence=sentence, event=scale_up.event)
    minutes = facts.verdict.minutes if facts.verdict else None
    sentence = gettext("Adding a new node for your server.")
    return ProgressMessage(
        stage=Stage.SCALING, sentence=join_sentences(sentence, _format_usual_duration(minutes)), event=scale_up.event
    )


def _format_usual_duration(minutes: float | None) -> str:
    return "" if minutes is None else gettext("That usually takes {duration}.", duration=format_rough_duration(minutes))


def _describe_never(verdict: Verdict, refusals: Refusals, *, event: SourcedEvent | None) -> ProgressMessage:
    if RefusalReason.VOLUME_ZONE in refusals:
        code, sentence = "volume_conflict", _format_refusal(refusals, RefusalReason.VOLUME_ZONE, gpu_name="")
    else:
        code = "never_fits"
        sentence = make_sentence(translate_now(verdict.reason)) or gettext(
            "No node in the cluster can ever run your server."
        )
    failure = StartFailure(code=code, sentence=sentence)
    return ProgressMessage(
        stage=Stage.WAITING,
        sentence=gettext("Looking for a node for your server."),
        event=event,
        failure=failure,
        after_s=NEVER_AFTER_S,
    )


def _format_search(pod: Mapping[str, object], gpu_name: str) -> str:
    if not gpu_name:
        return gettext("Looking for a node for your server.")
    return gettext("Looking for a node with {gpus} free.", gpus=_format_gpus(pod, gpu_name))


def _format_gpus(pod: Mapping[str, object], gpu_name: str) -> str:
    return gettext("{number} × {gpu}", number=max(1, count_devices(pod)), gpu=gpu_name)


def _format_reason(facts: Facts, refusals: Refusals, *, is_answered: bool, is_overdue: bool) -> str:
    """Return why the pod waits.

    :param is_answered: whether an autoscaler has said whether it adds a node for the pod.
    :param is_overdue: whether that node has not come in the time that a new node usually needs.
    """
    verdict = facts.verdict
    if verdict is not None and verdict.may_add_node:
        return join_sentences(format_missing_node(verdict), "" if is_answered else format_new_node(verdict))
    if verdict is not None and verdict.outcome is Outcome.AFTER_SCALE_UP and not is_overdue:
        return join_sentences(gettext("Waiting for a new node."), _format_usual_duration(verdict.minutes))
    if verdict is not None and verdict.outcome is Outcome.WAITS and verdict.reason:
        # The verdict's reason does not name the GPU type, because the form shows the reason beside the type. This
        # message is shown alone, so name the type in it.
        reason = translate_now(verdict.reason)
        if not facts.gpu_name:
            return make_sentence(reason)
        gpus = _format_gpus(facts.pod or {}, facts.gpu_name)
        return gettext("Waiting for {names}: {reason}.", names=gpus, reason=make_clause(reason))
    names = [_format_shortage(each, facts) for each in _ROOM_REASONS if each in refusals]
    if names:
        number = max(refusals.get(each, 0) for each in _ROOM_REASONS)
        return join_sentences(_format_waits_for(join_with_and(names), number), _format_other_nodes(refusals))
    return next(
        (_format_refusal(refusals, each, gpu_name=facts.gpu_name) for each in RefusalReason if each in refusals),
        "",
    )


def _format_bare_reason(verdict: Verdict | None) -> str:
    """Return the verdict's reason without what the server waits for, which the page says in its headline."""
    if verdict is None or verdict.outcome is not Outcome.WAITS or not verdict.reason:
        return ""
    return make_sentence(translate_now(verdict.reason))


def _format_waits_for(names: str, nodes: int) -> str:
    if not nodes:
        return gettext("Waiting for {names}.", names=names)
    return ngettext(
        "Waiting for {names}: {number} node doesn't have enough free.",
        "Waiting for {names}: {number} nodes don't have enough free.",
        number=nodes,
        names=names,
    )


def _format_other_nodes(refusals: Refusals) -> str:
    if RefusalReason.VOLUME_ZONE in refusals:
        return gettext("Other nodes can't reach a disk of your server: it is in another zone.")
    if RefusalReason.VOLUME_LIMIT in refusals:
        return gettext("Other nodes can't attach another disk.")
    return ""


def _format_shortage(reason: RefusalReason, facts: Facts) -> str:
    match reason:
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


def _format_refusal(refusals: Refusals, reason: RefusalReason, *, gpu_name: str) -> str:
    number = refusals.get(reason, 0)
    match reason:
        case RefusalReason.VOLUME_IN_USE:
            return gettext("A disk of your server is still in use by another server.")
        case RefusalReason.VOLUME_LIMIT:
            return gettext("Suitable nodes can't attach another disk.")
        case RefusalReason.VOLUME_MISSING:
            return gettext("A disk of your server is not there yet.")
        case RefusalReason.VOLUME_ZONE:
            return gettext("A disk of your server is in a zone without a suitable node.")
        case RefusalReason.CORDONED:
            return ngettext(
                "{number} node takes no new servers right now.",
                "{number} nodes take no new servers right now.",
                number=max(1, number),
            )
        case RefusalReason.NOT_READY:
            return gettext("Suitable nodes aren't ready.")
        case RefusalReason.OTHER_PODS:
            return gettext("Other servers keep yours off suitable nodes.")
        case RefusalReason.TAINTED:
            return gettext("The existing nodes are reserved for other work.")
        case _ if gpu_name:
            return gettext("There is no node with {gpus} right now.", gpus=add_article(gpu_name))
        case _:
            return gettext("There is no suitable node right now.")


def _format_servers_ahead(verdict: Verdict | None) -> str:
    if verdict is None or verdict.ahead is None or not _predicts_start(verdict):
        return ""
    if verdict.ahead == 0:
        return gettext("You're next.")
    return ngettext("{number} server is ahead of yours.", "{number} servers are ahead of yours.", number=verdict.ahead)


def _format_no_new_node(scale_up: AutoscalerStatus | None) -> str:
    match scale_up.state if scale_up else None:
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
        case ScaleUpState.NODES_FAIL if scale_up:
            return gettext(
                "{number} attempts to add a node failed. The cloud provider may be out of such machines.",
                number=scale_up.requests,
            )
        case ScaleUpState.NEW_NODE:
            return gettext("A new node was requested, but it isn't there yet.")
        case ScaleUpState.NODE_FOUND:
            return gettext("A node was found, but it hasn't taken your server.")
        case _:
            return ""


HOPELESS_IN_QUEUE_AFTER_S = 30.0
"""If Kueue reports for this many seconds that it would never admit a pod, the hub ends the start. The hub waits this
long because an admin may be changing the queue, or Kueue may have just started."""
_NOT_TAKEN_AFTER_S = 45.0
"""If a pod that names a WorkloadPriorityClass has no Workload of Kueue after this many seconds, the hub ends the start:
the class may not exist. The hub waits this long because Kueue may have to create many Workloads.
"""

_QUEUE_EVENTS = frozenset({"CreatedWorkload", "Stopped", "ErrWorkloadCompose", "WorkloadPriorityClassNotFound"})
_PLACED_REASONS = frozenset(
    {
        QueueReason.QUOTA_IN_USE,
        QueueReason.PREEMPTION,
        QueueReason.OTHERS_NOT_READY,
        QueueReason.NO_TOPOLOGY,
    }
)
"""Reasons for which a pod only waits for its turn in Kueue's queue. If no pod is ahead of such a pod, the message says
"You're next."; for any other reason, it says "Nothing is ahead of you."."""


def describe_queue(
    pod: Mapping[str, object], events: Sequence[SourcedEvent], *, place: QueuePlace | None
) -> ProgressMessage:
    """Return the message about a pod with scheduling gates.

    If Kueue set a gate, the message is about the pod's place in Kueue's queue, or says why Kueue would never admit the
    pod. Otherwise the message says that another system decides when the server may start.
    """
    if not is_queued_by_kueue(pod):
        return ProgressMessage(
            stage=Stage.QUEUED, sentence=gettext("Another system decides when your server may start.")
        )
    event = find_newest_event(events, {EventSource.KUEUE}, reasons=_QUEUE_EVENTS)
    place = place or QueuePlace()
    failure = _explain_hopeless(pod, event, place=place)
    if failure is not None:
        return ProgressMessage(
            stage=Stage.QUEUED,
            sentence=failure.sentence,
            event=event,
            is_alarm=True,
            failure=failure,
            after_s=_NOT_TAKEN_AFTER_S if place.reason is QueueReason.NOT_TAKEN else HOPELESS_IN_QUEUE_AFTER_S,
        )
    queue, position, reason = _format_queue(place.queue), _format_queue_position(place), _format_queue_reason(place)
    return ProgressMessage(
        stage=Stage.QUEUED,
        sentence=join_sentences(queue, position, reason),
        detail=join_sentences(queue, reason),
        place=position,
        event=event,
    )


def _explain_hopeless(
    pod: Mapping[str, object], event: SourcedEvent | None, *, place: QueuePlace
) -> StartFailure | None:
    """Return why Kueue would never admit a pod, or None if Kueue may admit it."""
    priority_class = as_text(as_dict(as_dict(pod.get("metadata")).get("labels")).get(PRIORITY_LABEL))
    names_missing_class = event is not None and event.reason == "WorkloadPriorityClassNotFound"
    if event is not None and event.reason == "ErrWorkloadCompose":
        sentence = gettext("The queue does not accept your server, because their settings do not match.")
        return StartFailure(code="refused_by_queue", sentence=sentence)
    match place.reason:
        case QueueReason.EXCEEDS_QUOTA:
            sentence = gettext(
                "Your server asks for more than the whole quota of the queue {queue}.", queue=place.queue
            )
            return StartFailure(code="exceeds_queue_quota", sentence=sentence)
        case QueueReason.NO_FLAVOR:
            sentence = gettext(
                "The queue {queue} has nothing of the kind that your server asks for.", queue=place.queue
            )
            return StartFailure(code="no_queue_flavor", sentence=sentence)
        case QueueReason.NO_QUEUE:
            sentence = gettext("The queue {queue} does not exist.", queue=place.queue)
            return StartFailure(code="queue_unavailable", sentence=sentence)
        case QueueReason.STOPPED | QueueReason.INACTIVE:
            sentence = gettext("The queue {queue} is stopped, or not set up completely.", queue=place.queue)
            return StartFailure(code="queue_unavailable", sentence=sentence)
        case QueueReason.MISCONFIGURED:
            sentence = gettext("The queue does not accept your server, because their settings do not match.")
            return StartFailure(code="refused_by_queue", sentence=sentence)
        case QueueReason.DEACTIVATED:
            sentence = gettext("The queue {queue} no longer considers your server.", queue=place.queue)
            return StartFailure(code="refused_by_queue", sentence=sentence)
        case QueueReason.NOT_TAKEN if priority_class:
            sentence = _explain_not_taken(priority_class, is_sure=names_missing_class)
            return StartFailure(code="refused_by_queue", sentence=sentence)
        case _:
            return None


def _explain_not_taken(priority_class: str, *, is_sure: bool) -> str:
    if is_sure:
        return gettext("The priority class {name} of the queue does not exist.", name=priority_class)
    return gettext(
        "The queue hasn't accepted your server. Its priority class {name} may not exist.", name=priority_class
    )


def _format_queue(queue: str) -> str:
    if queue:
        return gettext("Waiting in the queue {queue}.", queue=queue)
    return gettext("Waiting in the queue.")


def _format_queue_position(place: QueuePlace) -> str:
    if place.position is None:
        return ""
    if place.position > 0:
        return ngettext("{number} is ahead of you.", "{number} are ahead of you.", number=place.position)
    if place.reason in _PLACED_REASONS:
        return gettext("You're next.")
    return gettext("Nothing is ahead of you.")


def _format_queue_reason(place: QueuePlace) -> str:
    match place.reason:
        case QueueReason.QUOTA_IN_USE:
            return gettext("The queue's quota is in use.")
        case QueueReason.PREEMPTION:
            return gettext("The queue is making room for your server.")
        case QueueReason.OTHERS_NOT_READY:
            return gettext("The queue is waiting until everything it has admitted is ready.")
        case QueueReason.NO_TOPOLOGY:
            return gettext("No group of nodes has room for your server right now.")
        case QueueReason.CHECKS:
            return gettext("The queue has reserved quota for your server and is waiting for further checks.")
        case QueueReason.REQUEUED if place.requeue_s:
            duration = format_rough_duration(place.requeue_s / _PER_MINUTE)
            return gettext(
                "The queue has put your server back and will consider it again in {duration}.", duration=duration
            )
        case QueueReason.REQUEUED:
            return gettext("The queue has put your server back and will consider it again later.")
        case QueueReason.NOT_TAKEN:
            return gettext("The queue hasn't accepted your server yet.")
        case None if place.position == 0:
            return gettext("The hub can't tell whether the queue can admit your server.")
        case _:
            return ""
