"""Compares what was said of a pod with what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench.truth import facts
from bench.truth.claims import Kind, find_claim, is_confirmed, read_claim
from bench.truth.facts import View
from bench.truth.vocabulary import Manifest
from gpuspawner.core.verdict.verdict import Outcome, Verdict


class Fate(StrEnum):
    """What became of a pod."""

    STARTED = "started"
    NEW_NODE = "started on a new node"
    WAITED = "waited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What the cluster did with a pod.

    :param node: where it was bound, empty where nowhere.
    :param words: message of kube-scheduler's first refusal, empty where it had none.
    :param autoscaler: what Karpenter said of the pod, empty where nothing.
    :param took_s: seconds until this was known.
    """

    fate: Fate
    node: str = ""
    words: str = ""
    autoscaler: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was said of a pod just before it was created.

    :param pod: the pod as the API server would make it, from a dry run.
    :param labels: what any node of the chosen GPU type has.
    :param count: how many GPUs were chosen, 0 for none.
    """

    verdict: Verdict
    pod: Manifest
    labels: Mapping[str, str]
    count: int


class Fault(StrEnum):
    """A way to be wrong."""

    NOT_NOW = "now, but did not start"
    NOT_NEVER = "never, but started"
    REASON = "wrong reason"
    PLACE = "wrong place in line"
    PEER = "the sum of free GPUs was wrong"


def find_faults(said: Said, event: Event, view: View) -> Iterator[tuple[Fault, str]]:
    """Yield what was wrong, with an explanation.

    :param view: the cluster when it was said.
    """
    outcome, fate = said.verdict.outcome, event.fate
    if outcome is Outcome.NOW and fate is not Fate.STARTED:
        yield Fault.NOT_NOW, f"{fate}: {event.words}"
    if outcome is Outcome.NEVER and fate is not Fate.WAITED:
        yield Fault.NOT_NEVER, f"{fate} on {event.node}"
    if outcome in (Outcome.WAITS, Outcome.AFTER_SCALE_UP):
        if reason := _find_wrong_reason(said, event, view):
            yield Fault.REASON, reason
        ahead = facts.count_ahead(view, said.pod)
        if said.verdict.ahead not in ahead:
            yield Fault.PLACE, f"said {said.verdict.ahead} ahead, there are {ahead[0]} to {ahead[-1]}"
    if said.count and facts.is_enough_by_sum(view, said.labels, count=said.count) != (fate is Fate.STARTED):
        yield Fault.PEER, fate


def is_hedged(said: Said, event: Event) -> bool:
    """Return whether no node came where the verdict said "if one that is large enough can be had"."""
    verdict = said.verdict
    return verdict.outcome is Outcome.AFTER_SCALE_UP and not verdict.is_sure and event.fate is Fate.WAITED


def _find_wrong_reason(said: Said, event: Event, view: View) -> str:
    verdict = said.verdict
    if event.fate is Fate.STARTED:
        return f"it started at once on {event.node}"
    if verdict.outcome is Outcome.WAITS and event.fate is Fate.NEW_NODE:
        return f"a new node came: {event.node}"
    if verdict.outcome is Outcome.AFTER_SCALE_UP and event.fate is Fate.WAITED and not is_hedged(said, event):
        return f"no node came: {event.autoscaler}"
    if verdict.outcome is Outcome.AFTER_SCALE_UP and not verdict.reason:
        return ""
    claim, fact = read_claim(verdict.reason), find_claim(view, said.pod)
    if claim.kind is Kind.OTHER or claim != fact:
        return f"claims {claim}, but {fact}"
    return "" if is_confirmed(claim, event.words) else f"claims {claim}, but the scheduler says: {event.words}"
