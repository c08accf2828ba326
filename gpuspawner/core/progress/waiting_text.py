"""A pod that waits for a node, in words: what it waits for, who is ahead, whether a new node comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from gpuspawner.core.progress.autoscaler_messages import Growing, Scaling, scaling
from gpuspawner.core.progress.event_sources import Event, Source, newest
from gpuspawner.core.progress.pod_status import condition, device_count
from gpuspawner.core.progress.scheduler_messages import Refusals, Shortcoming, refusals
from gpuspawner.core.progress.stages import Facts, Hopeless, Saying, Stage
from gpuspawner.core.rawjson import mapping, text
from gpuspawner.core.text.language import gettext, ngettext, said
from gpuspawner.core.text.sentences import all_of, as_sentence, paragraph, with_article
from gpuspawner.core.units.words import duration
from gpuspawner.core.verdict.verdict import Outcome, Verdict

NEVER_AFTER_S = 10.0
"""Seconds between two verdicts of NEVER that are believed: what is known of the cluster may be behind for a moment."""

_PER_MINUTE = 60
_PER_HOUR = 60
_IN_MINUTES = 90
_WAITED_FOR = (Shortcoming.DEVICES, Shortcoming.CPU, Shortcoming.MEMORY, Shortcoming.DISK, Shortcoming.PODS)

_TO_MEND = (
    Shortcoming.VOLUME_IN_USE,
    Shortcoming.VOLUME_MISSING,
    Shortcoming.VOLUME_ZONE,
    Shortcoming.CORDONED,
    Shortcoming.NOT_READY,
)
"""What room for one more server would not change."""


def waiting(facts: Facts, events: Sequence[Event], *, is_early: bool) -> Saying:
    """Return what a pod without a node waits for.

    :param is_early: kube-scheduler has had it for a short while only, and may yet find one.
    """
    pod = facts.pod or {}
    event = newest(events, {Source.SCHEDULER}, reasons={"FailedScheduling"})
    message = _refused(pod) or (event.message if event else "")
    grown = scaling(events)
    if grown is not None and grown.is_under_way:
        return _new_node(facts, grown)
    if text(mapping(pod.get("status")).get("nominatedNodeName")):
        sentence = gettext("Room is being made for your server on a node.")
        return Saying(stage=Stage.WAITING, sentence=sentence, event=event)
    known = refusals(message)
    if facts.verdict is not None and facts.verdict.outcome is Outcome.NEVER:
        return replace(_never(facts.verdict, known, event=event), at_s=facts.judged_at_s)
    if not message:
        return being_set_up()
    looked_for = _looked_for(pod, facts.gpu_name)
    if is_early and not _says_more(facts.verdict):
        return Saying(stage=Stage.WAITING, sentence=looked_for, event=event)
    sentence = paragraph(
        _reason(facts, known) or looked_for, _ahead(facts.verdict), "" if is_early else _no_new_node(grown)
    )
    told = grown.event if grown and event is None else event
    return Saying(
        stage=Stage.WAITING,
        sentence=sentence,
        event=told,
        is_alarm=not is_early,
        lacks_room=_says_more(facts.verdict) or not _needs_mending(known),
    )


def _needs_mending(known: Refusals) -> bool:
    """Tell whether more room would not help: no node is short of anything, and something else is the matter."""
    return any(each in known.counts for each in _TO_MEND) and not any(each in known.counts for each in _WAITED_FOR)


def being_set_up() -> Saying:
    """Return that nobody has said anything of the start yet."""
    return Saying(stage=Stage.CHECKING, sentence=gettext("Your server is being set up."))


def left_sentence(left_s: float | None) -> str:
    """Return for how long a start goes on waiting at most; empty where nobody knows."""
    if left_s is None or left_s <= 0:
        return ""
    minutes = ceil(left_s / _PER_MINUTE)
    if left_s < _PER_MINUTE:
        return gettext("Your server waits for less than a minute more.")
    if minutes < _IN_MINUTES:
        return gettext("Your server waits for {minutes} min more at most.", minutes=minutes)
    return gettext("Your server waits for {hours} h more at most.", hours=ceil(minutes / _PER_HOUR))


def _refused(pod: Mapping[str, object]) -> str:
    scheduled = condition(pod, "PodScheduled")
    return text(scheduled.get("message")) if scheduled.get("reason") == "Unschedulable" else ""


def _says_more(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome in (Outcome.WAITS, Outcome.AFTER_SCALE_UP)


def _new_node(facts: Facts, grown: Scaling) -> Saying:
    if grown.growing is Growing.NODE_FOUND:
        sentence = gettext("A node was found that your server will have in a moment.")
        return Saying(stage=Stage.WAITING, sentence=sentence, event=grown.event)
    minutes = facts.verdict.minutes if facts.verdict else None
    sentence = gettext("A new node is being added for your server.")
    return Saying(stage=Stage.SCALING, sentence=paragraph(sentence, _usually(minutes)), event=grown.event)


def _usually(minutes: float | None) -> str:
    return "" if minutes is None else gettext("That usually takes {duration}.", duration=duration(minutes))


def _never(verdict: Verdict, known: Refusals, *, event: Event | None) -> Saying:
    if Shortcoming.VOLUME_ZONE in known.counts:
        code, sentence = "volume_conflict", _unsuited(known, Shortcoming.VOLUME_ZONE, gpu_name="")
    else:
        code = "never_fits"
        sentence = as_sentence(said(verdict.reason)) or gettext("No node of the cluster would ever take your server.")
    hopeless = Hopeless(code=code, sentence=sentence)
    return Saying(
        stage=Stage.WAITING,
        sentence=gettext("A node for your server is being looked for."),
        event=event,
        hopeless=hopeless,
        after_s=NEVER_AFTER_S,
    )


def _looked_for(pod: Mapping[str, object], gpu_name: str) -> str:
    if not gpu_name:
        return gettext("A node for your server is being looked for.")
    return gettext("A node with {gpus} free is being looked for.", gpus=_gpus(pod, gpu_name))


def _gpus(pod: Mapping[str, object], gpu_name: str) -> str:
    return gettext("{number} × {gpu}", number=max(1, device_count(pod)), gpu=gpu_name)


def _reason(facts: Facts, known: Refusals) -> str:
    verdict = facts.verdict
    if verdict is not None and verdict.outcome is Outcome.AFTER_SCALE_UP:
        return paragraph(gettext("Your server waits for a new node."), _usually(verdict.minutes))
    if verdict is not None and verdict.outcome is Outcome.WAITS and verdict.reason:
        # Worded to stand beside the GPU type, which the page that waits shows nowhere else.
        wanted = _waits_for(_gpus(facts.pod or {}, facts.gpu_name), 0) if facts.gpu_name else ""
        return paragraph(wanted, as_sentence(said(verdict.reason)))
    names = [_waited_for(each, facts) for each in _WAITED_FOR if each in known.counts]
    if names:
        number = max(known.counts.get(each, 0) for each in _WAITED_FOR)
        return paragraph(_waits_for(all_of(names), number), _elsewhere(known))
    return next((_unsuited(known, each, gpu_name=facts.gpu_name) for each in Shortcoming if each in known.counts), "")


def _waits_for(names: str, nodes: int) -> str:
    if not nodes:
        return gettext("Your server waits for {names}.", names=names)
    return ngettext(
        "Your server waits for {names}: {number} node has too little left.",
        "Your server waits for {names}: {number} nodes have too little left.",
        number=nodes,
        names=names,
    )


def _elsewhere(known: Refusals) -> str:
    if Shortcoming.VOLUME_ZONE not in known.counts:
        return ""
    return gettext("Other nodes cannot reach a disk of your server: it is in another zone.")


def _waited_for(shortcoming: Shortcoming, facts: Facts) -> str:
    match shortcoming:
        case Shortcoming.DEVICES if facts.gpu_name:
            return _gpus(facts.pod or {}, facts.gpu_name)
        case Shortcoming.DEVICES:
            return gettext("a free device")
        case Shortcoming.CPU:
            return gettext("CPU")
        case Shortcoming.MEMORY:
            return gettext("memory")
        case Shortcoming.DISK:
            return gettext("disk space")
        case _:
            return gettext("a place on a node")


def _unsuited(known: Refusals, shortcoming: Shortcoming, *, gpu_name: str) -> str:
    number = known.counts.get(shortcoming, 0)
    match shortcoming:
        case Shortcoming.VOLUME_IN_USE:
            return gettext("A disk of your server is still in use by another server.")
        case Shortcoming.VOLUME_LIMIT:
            return gettext("The nodes that would do cannot take one more disk.")
        case Shortcoming.VOLUME_MISSING:
            return gettext("A disk of your server is not there yet.")
        case Shortcoming.VOLUME_ZONE:
            return gettext("A disk of your server is in a zone where no node would do.")
        case Shortcoming.CORDONED:
            return ngettext(
                "{number} node takes no new servers right now.",
                "{number} nodes take no new servers right now.",
                number=max(1, number),
            )
        case Shortcoming.NOT_READY:
            return gettext("The nodes that would do are not ready.")
        case Shortcoming.OTHER_PODS:
            return gettext("Other servers keep yours off the nodes that would do.")
        case Shortcoming.TAINTED:
            return gettext("The nodes that are there are reserved for other work.")
        case _ if gpu_name:
            return gettext("There is no node with {gpus} right now.", gpus=with_article(gpu_name))
        case _:
            return gettext("There is no node right now that would do.")


def _ahead(verdict: Verdict | None) -> str:
    if verdict is None or verdict.ahead is None or not _says_more(verdict):
        return ""
    if verdict.ahead == 0:
        return gettext("Yours is next.")
    return ngettext("{number} server is ahead of yours.", "{number} servers are ahead of yours.", number=verdict.ahead)


def _no_new_node(grown: Scaling | None) -> str:
    match grown.growing if grown else None:
        case Growing.AT_LIMIT:
            return gettext("No new node can be added: there are as many as there may be.")
        case Growing.OUT_OF_QUOTA:
            return gettext("No new node can be added: the cluster's quota with its provider is used up.")
        case Growing.OUT_OF_STOCK:
            return gettext("No new node can be added: the provider has no such machine right now.")
        case Growing.BACKING_OFF:
            return gettext("Adding a node failed; it is tried again later.")
        case Growing.NOT_READY:
            return gettext("No new node can be added right now.")
        case _:
            return ""
