"""Formats verdicts (predictions of when a server starts) for the form and for messages."""

from __future__ import annotations

from gpuspawner.core.autoscaling.cluster_autoscaler import NodeGrowth
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import join_sentences, make_clause
from gpuspawner.core.units.duration import format_age, format_clock, format_last_update, format_rough_duration
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict


def format_verdict(verdict: Verdict) -> str:
    """Return a verdict as one or two sentences, such as "Will wait: all 8 are in use. You'd be next in line."."""
    match verdict.outcome:
        case Outcome.NOW:
            return _format_now(verdict)
        case Outcome.AFTER_SCALE_UP:
            return _format_after_scale_up(verdict)
        case Outcome.WAITS:
            return _format_waits(make_clause(verdict.reason), _format_ahead(verdict))
        case Outcome.NEVER:
            reason = make_clause(verdict.reason)
            return gettext("Can't start: {reason}.", reason=reason) if reason else gettext("Can't start.")
        case Outcome.UNKNOWN if verdict.may_add_node:
            return join_sentences(format_missing_node(verdict), format_new_node(verdict))
        case Outcome.UNKNOWN:
            return _format_unknown(make_clause(verdict.reason), verdict)


def format_verdict_label(verdict: Verdict) -> str:
    """Return a verdict in a few words without a period, such as "Starts now: room for 3"."""
    match verdict.outcome:
        case Outcome.NOW if verdict.places is None:
            return gettext("Starts now")
        case Outcome.NOW if verdict.places_exact:
            return gettext("Starts now: room for {places}", places=verdict.places)
        case Outcome.NOW:
            return gettext("Starts now: room for {places}+", places=verdict.places)
        case Outcome.AFTER_SCALE_UP:
            if verdict.minutes is None:
                return gettext("After a new node")
            return gettext("After a new node, {duration}", duration=format_rough_duration(verdict.minutes))
        case Outcome.WAITS if verdict.ahead:
            return ngettext(
                "Will wait: {number} ahead of you", "Will wait: {number} ahead of you", number=verdict.ahead
            )
        case Outcome.WAITS:
            return gettext("Will wait") if verdict.ahead is None else gettext("Will wait: you'd be next")
        case Outcome.NEVER:
            return gettext("Can't start")
        case Outcome.UNKNOWN:
            return gettext("No such node is running") if verdict.may_add_node else gettext("Availability unknown")


def format_missing_node(verdict: Verdict) -> str:
    """Return a sentence that says that no node could take the server, and why.

    :param verdict: a verdict with ``may_add_node``.
    """
    return gettext("No such node is running: {reason}.", reason=make_clause(verdict.reason))


def format_new_node(verdict: Verdict) -> str:
    """Return a sentence that says whether such a node may be added and, if known, how long the server waits for it.

    :param verdict: a verdict with ``may_add_node``.
    """
    time = "" if verdict.start_timeout_s is None else format_clock(verdict.start_timeout_s)
    match verdict.growth:
        case NodeGrowth.POSSIBLE if time:
            return gettext("The cluster-autoscaler may add one; your server waits up to {time}.", time=time)
        case NodeGrowth.POSSIBLE:
            return gettext("The cluster-autoscaler may add one.")
        case NodeGrowth.FULL if time:
            return gettext("All node groups have their largest size; your server waits up to {time}.", time=time)
        case NodeGrowth.FULL:
            return gettext("All node groups have their largest size.")
        case NodeGrowth.UNSEEN if time:
            return gettext("One may be added; your server waits up to {time}.", time=time)
        case NodeGrowth.UNSEEN:
            return gettext("One may be added.")


def _format_now(verdict: Verdict) -> str:
    if verdict.places is None:
        return gettext("Starts now.")
    if verdict.places_exact:
        return ngettext(
            "Starts now: room for {number} like this.",
            "Starts now: room for {number} like this.",
            number=verdict.places,
        )
    return ngettext(
        "Starts now: room for at least {number} like this.",
        "Starts now: room for at least {number} like this.",
        number=verdict.places,
    )


def _format_after_scale_up(verdict: Verdict) -> str:
    if verdict.minutes is None:
        text = gettext("Starts after a new node is added")
    else:
        text = gettext("Starts after a new node is added, {duration}", duration=format_rough_duration(verdict.minutes))
    if not verdict.is_sure:
        text = gettext("{verdict}, if a large enough one is available", verdict=text)
    return join_sentences(gettext("{sentence}.", sentence=text), _format_ahead(verdict) if verdict.ahead else "")


def _format_waits(reason: str, ahead: str) -> str:
    text = gettext("Will wait: {reason}.", reason=reason) if reason else gettext("Will wait.")
    return join_sentences(text, ahead)


def _format_unknown(reason: str, verdict: Verdict) -> str:
    if verdict.age_s is None or verdict.age_s <= MAX_DATA_AGE_S:
        if not reason:
            return gettext("Availability unknown.")
        text = gettext("Availability unknown: {reason}.", reason=reason)
        return join_sentences(text, _format_ahead(verdict) if verdict.ahead else "")
    age = format_age(verdict.age_s)  # The data is too old for a prediction, so show its age.
    return (
        gettext("Availability unknown: {reason} ({age}).", reason=reason, age=age)
        if reason
        else gettext("Availability unknown: {reason}.", reason=format_last_update(verdict.age_s))
    )


def _format_ahead(verdict: Verdict) -> str:
    if verdict.ahead is None:
        return ""
    if verdict.ahead == 0:
        return gettext("You'd be next in line.")
    if verdict.is_queued:
        return ngettext(
            "{number} in the queue is ahead of you.", "{number} in the queue are ahead of you.", number=verdict.ahead
        )
    return ngettext("{number} server is ahead of yours.", "{number} servers are ahead of yours.", number=verdict.ahead)
