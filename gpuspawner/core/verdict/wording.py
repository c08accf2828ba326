"""Formats verdicts (predictions of when a server starts) for the form and for messages."""

from __future__ import annotations

from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import make_clause
from gpuspawner.core.units.duration import format_age, format_rough_duration
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict


def format_verdict(verdict: Verdict) -> str:
    """Return a verdict as a sentence, such as "Starts now: 3 places left.".

    :param verdict: the verdict.
    """
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
        case Outcome.UNKNOWN:
            return _format_unknown(make_clause(verdict.reason), verdict)


def format_verdict_label(verdict: Verdict) -> str:
    """Return a verdict in a few words without a period, such as "Starts now: 3 left".

    :param verdict: the verdict.
    """
    match verdict.outcome:
        case Outcome.NOW if verdict.places is None:
            return gettext("Starts now")
        case Outcome.NOW if verdict.places_exact:
            return gettext("Starts now: {places} left", places=verdict.places)
        case Outcome.NOW:
            return gettext("Starts now: {places}+ left", places=verdict.places)
        case Outcome.AFTER_SCALE_UP:
            if verdict.minutes is None:
                return gettext("After a new node")
            return gettext("After a new node, {duration}", duration=format_rough_duration(verdict.minutes))
        case Outcome.WAITS if verdict.ahead:
            return ngettext("Waits: {number} is ahead", "Waits: {number} are ahead", number=verdict.ahead)
        case Outcome.WAITS:
            return gettext("Waits") if verdict.ahead is None else gettext("Waits: yours is next")
        case Outcome.NEVER:
            return gettext("Can't start")
        case Outcome.UNKNOWN:
            return gettext("Unknown")


def _format_now(verdict: Verdict) -> str:
    if verdict.places is None:
        return gettext("Starts now.")
    if verdict.places_exact:
        return ngettext("Starts now: {number} place left.", "Starts now: {number} places left.", number=verdict.places)
    return ngettext(
        "Starts now: at least {number} place left.", "Starts now: at least {number} places left.", number=verdict.places
    )


def _format_after_scale_up(verdict: Verdict) -> str:
    if verdict.minutes is None:
        text = gettext("Starts after a new node is added")
    else:
        text = gettext("Starts after a new node is added, {duration}", duration=format_rough_duration(verdict.minutes))
    if not verdict.is_sure:
        text = gettext("{verdict}, if one that is large enough can be had", verdict=text)
    if verdict.ahead:
        text = gettext("{verdict}; {ahead}", verdict=text, ahead=_format_ahead(verdict))
    return gettext("{sentence}.", sentence=text)


def _format_waits(reason: str, ahead: str) -> str:
    if reason and ahead:
        return gettext("Waits: {reason}, {ahead}.", reason=reason, ahead=ahead)
    if reason or ahead:
        return gettext("Waits: {reason}.", reason=reason or ahead)
    return gettext("Waits.")


def _format_unknown(reason: str, verdict: Verdict) -> str:
    if verdict.age_s is None or verdict.age_s <= MAX_DATA_AGE_S:
        if reason and verdict.ahead:
            return gettext("Unknown: {reason}, {ahead}.", reason=reason, ahead=_format_ahead(verdict))
        return gettext("Unknown: {reason}.", reason=reason) if reason else gettext("Unknown.")
    age = format_age(verdict.age_s)  # The data is too old for a prediction, so show its age.
    return (
        gettext("Unknown: {reason} ({age}).", reason=reason, age=age)
        if reason
        else gettext("Unknown ({age}).", age=age)
    )


def _format_ahead(verdict: Verdict) -> str:
    if verdict.ahead is None:
        return ""
    if verdict.ahead == 0:
        return gettext("yours is next")
    if verdict.is_queued:
        return ngettext(
            "{number} in the queue is ahead of yours", "{number} in the queue are ahead of yours", number=verdict.ahead
        )
    return ngettext("{number} server is ahead of yours", "{number} servers are ahead of yours", number=verdict.ahead)
