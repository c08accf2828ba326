"""Compares the prediction about a pod with the pod's fate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bench.truth import facts
from bench.truth.claims import Kind, find_claim, is_confirmed, read_claim
from bench.truth.facts import View
from bench.truth.queue_facts import QueueAnswer, is_about_use, is_held
from bench.truth.vocabulary import Manifest
from gpuspawner.core.verdict.verdict import Outcome, Verdict


class Fate(StrEnum):
    """The fate of a pod."""

    STARTED = "started"
    NEW_NODE = "started on a new node"
    WAITED = "waited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The cluster's treatment of a pod.

    :param node: where it was bound, empty where nowhere.
    :param words: message of kube-scheduler's first refusal, empty where it had none.
    :param autoscaler: Karpenter's event about the pod, empty where none.
    :param kueue: Kueue's state of a pod that it did not admit; None for one that it admitted, or that has no queue.
    :param took_s: seconds until this was known.
    :param pod: the pod as it was read last, with what Kueue added when it admitted the pod.
    """

    fate: Fate
    node: str = ""
    words: str = ""
    autoscaler: str = ""
    kueue: QueueAnswer | None = None
    took_s: float = 0.0
    pod: Manifest | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The prediction about a pod just before it was created.

    :param pod: the pod as the API server would make it, from a dry run.
    :param labels: what any node of the chosen GPU type has.
    :param count: how many GPUs were chosen, 0 for none.
    :param sees_pools: whether the hub sees what the autoscaler may add.
    """

    verdict: Verdict
    pod: Manifest
    labels: Mapping[str, str]
    count: int
    sees_pools: bool = True


class Fault(StrEnum):
    """A way to be wrong."""

    NOT_NOW = "now, but did not start"
    NOT_NEVER = "never, but started"
    REFUSED_NEW_NODE = "never, but a new node came"
    REASON = "wrong reason"
    PLACE = "wrong place in line"
    PEER = "the sum of free GPUs was wrong"


def find_faults(said: Said, event: Event, view: View) -> Iterator[tuple[Fault, str]]:
    """Yield what was wrong, with an explanation.

    :param view: the cluster when it was said.
    """
    verdict, fate = said.verdict, event.fate
    outcome = verdict.outcome
    if outcome is Outcome.NOW and fate is not Fate.STARTED:
        yield Fault.NOT_NOW, f"{fate}: {event.words}{_quote_kueue(event)}"
    if outcome is Outcome.NEVER and fate is not Fate.WAITED:
        yield Fault.NOT_NEVER, f"{fate} on {event.node}"
    if outcome is Outcome.NEVER and fate is Fate.NEW_NODE:
        yield Fault.REFUSED_NEW_NODE, f"the hub would have refused a start that {event.node} took"
    if outcome in (Outcome.WAITS, Outcome.AFTER_SCALE_UP) and (reason := _find_wrong_reason(said, event, view)):
        yield Fault.REASON, reason
    if place := _find_wrong_place(said, event, view):
        yield Fault.PLACE, place
    if said.count and facts.is_enough_by_sum(view, said.labels, count=said.count) != (fate is Fate.STARTED):
        yield Fault.PEER, fate


def is_hedged(said: Said, event: Event) -> bool:
    """Return whether no node came where the verdict said "if one that is large enough can be had"."""
    if event.kueue is not None or event.fate is not Fate.WAITED:
        return False
    return said.verdict.outcome is Outcome.AFTER_SCALE_UP and not said.verdict.is_sure


def is_worth_trying(said: Said, view: View) -> bool:
    """Return whether it shows something what a pod that waited does alone.

    :param view: the empty fleet.
    """
    verdict = said.verdict
    if verdict.outcome is Outcome.WAITS:
        return verdict.is_queued or bool(facts.candidates(view, said.pod))
    return verdict.outcome is Outcome.NEVER


def find_faults_alone(verdict: Verdict, pod: Manifest, view: View) -> Iterator[tuple[Fault, str]]:
    """Yield what was wrong with a verdict, with an explanation.

    :param pod: the pod alone in the fleet, once it is bound or refused.
    :param view: the empty fleet.
    """
    node = pod["spec"].get("nodeName", "")
    if verdict.outcome is Outcome.NEVER and node:
        yield Fault.NOT_NEVER, f"alone it starts on {node}"
    if verdict.outcome is not Outcome.WAITS or node:
        return
    if is_held(pod):
        yield Fault.REASON, "Kueue does not admit it even alone"
    elif not verdict.is_queued and facts.candidates(view, pod):
        yield Fault.REASON, "it does not start even alone"


def _find_wrong_place(said: Said, event: Event, view: View) -> str:
    """Return how many are ahead where the verdict says another number; a pod that Kueue admitted has no place there."""
    verdict = said.verdict
    if verdict.is_queued:
        position = None if event.kueue is None else event.kueue.position
        is_told = verdict.outcome is Outcome.WAITS or verdict.ahead is not None
        wrong = is_told and position is not None and verdict.ahead != position
        return f"said {verdict.ahead} ahead in the queue, there are {position}" if wrong else ""
    if verdict.outcome not in (Outcome.WAITS, Outcome.AFTER_SCALE_UP) or event.kueue is not None:
        return ""
    ahead = facts.count_ahead(view, _find_admitted(said, event))
    return "" if verdict.ahead in ahead else f"said {verdict.ahead} ahead, there are {ahead[0]} to {ahead[-1]}"


def _find_admitted(said: Said, event: Event) -> Manifest:
    """Return the pod with the labels and tolerations that Kueue gave it, if it did."""
    return event.pod if event.pod is not None and "containers" in event.pod["spec"] else said.pod


def _quote_kueue(event: Event) -> str:
    return "" if event.kueue is None else f"Kueue holds it: {event.kueue}"


def _find_wrong_queue_reason(said: Said, event: Event) -> str:
    """Return why the reason is wrong of a verdict that the queue decides.

    Kueue looks only at the first Workload of a ClusterQueue with StrictFIFO, so it says nothing of the others.
    """
    if event.kueue is None:
        return f"Kueue admitted it at once; then: {event.words}"
    claim = read_claim(said.verdict.reason)
    is_behind = bool(event.kueue.position) and not event.kueue.words
    if claim.kind is Kind.QUOTA_IN_USE and (is_about_use(event.kueue.words) or is_behind):
        return ""
    return f"claims {claim}, but Kueue says: {event.kueue}"


def _find_wrong_reason(said: Said, event: Event, view: View) -> str:
    verdict = said.verdict
    if event.fate is Fate.STARTED:
        return f"it started at once on {event.node}"
    if verdict.is_queued:
        return _find_wrong_queue_reason(said, event)
    if event.kueue is not None:
        return _quote_kueue(event)
    if verdict.outcome is Outcome.WAITS and event.fate is Fate.NEW_NODE:
        return f"a new node came: {event.node}" if said.sees_pools else ""
    if verdict.outcome is Outcome.AFTER_SCALE_UP and event.fate is Fate.WAITED and not is_hedged(said, event):
        return f"no node came: {event.autoscaler}"
    if verdict.outcome is Outcome.AFTER_SCALE_UP and not verdict.reason:
        return ""
    claim, fact = read_claim(verdict.reason), find_claim(view, _find_admitted(said, event))
    if claim.kind is Kind.OTHER or claim != fact:
        return f"claims {claim}, but {fact}"
    return "" if is_confirmed(claim, event.words) else f"claims {claim}, but the scheduler says: {event.words}"
