"""A verdict as one short sentence, as it stands next to Start."""

from __future__ import annotations

from gpuspawner.core.verdict import FRESH_S, Outcome, Verdict
from gpuspawner.core.words import age, as_clause, counted, duration


def verdict_sentence(verdict: Verdict) -> str:
    """Return a verdict for people: "Starts now: 3 places left."."""
    match verdict.outcome:
        case Outcome.NOW:
            return f"Starts now{_places(verdict)}."
        case Outcome.AFTER_SCALE_UP:
            return f"Starts after a new node is added{_minutes(verdict)}{_proviso(verdict)}{_before(verdict)}."
        case Outcome.WAITS:
            return _led("Waits", ", ".join(filter(None, (as_clause(verdict.reason), _ahead(verdict)))))
        case Outcome.NEVER:
            return _led("Can't start", as_clause(verdict.reason))
        case Outcome.UNKNOWN:
            return _led("Unknown", f"{as_clause(verdict.reason)}{_age(verdict)}")


def verdict_label(verdict: Verdict) -> str:
    """Return a verdict in a few words, for where there is room for one short line: "Starts now: 3 left"."""
    match verdict.outcome:
        case Outcome.NOW:
            left = "" if verdict.places is None else f": {verdict.places}{'' if verdict.places_exact else '+'} left"
            return f"Starts now{left}"
        case Outcome.AFTER_SCALE_UP:
            return f"After a new node{_minutes(verdict)}"
        case Outcome.WAITS if verdict.ahead:
            return f"Waits: {verdict.ahead} {'is' if verdict.ahead == 1 else 'are'} ahead"
        case Outcome.WAITS:
            return ": ".join(filter(None, ("Waits", _ahead(verdict))))
        case Outcome.NEVER:
            return "Can't start"
        case Outcome.UNKNOWN:
            return "Unknown"


def _led(lead: str, text: str) -> str:
    return f"{lead}: {text.lstrip()}." if text else f"{lead}."


def _places(verdict: Verdict) -> str:
    if verdict.places is None:
        return ""
    if verdict.places_exact:
        return f": {counted(verdict.places, 'place')} left"
    return f": at least {counted(verdict.places, 'place')} left"


def _minutes(verdict: Verdict) -> str:
    return "" if verdict.minutes is None else f", {duration(verdict.minutes)}"


def _proviso(verdict: Verdict) -> str:
    return "" if verdict.is_sure else ", if one that is large enough can be had"


def _before(verdict: Verdict) -> str:
    return f"; {_ahead(verdict)}" if verdict.ahead else ""


def _ahead(verdict: Verdict) -> str:
    """Return who comes first, in numbers."""
    if verdict.ahead is None:
        return ""
    if verdict.ahead == 0:
        return "yours is next"
    return f"{counted(verdict.ahead, 'server')} {'is' if verdict.ahead == 1 else 'are'} ahead of yours"


def _age(verdict: Verdict) -> str:
    """Return how old what is known is, where that is too old."""
    if verdict.age_s is None or verdict.age_s <= FRESH_S:
        return ""
    return f" (as of {age(verdict.age_s)} ago)"
