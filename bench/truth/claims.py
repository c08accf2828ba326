"""Claims of a verdict's reason, and the facts of the same moment that allow them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from bench.truth import facts
from bench.truth.facts import View
from bench.truth.vocabulary import GPU, Manifest
from gpuspawner.core.cluster.decode import decode_resources


class Kind(StrEnum):
    """The subject of a reason."""

    IN_USE = "all in use"
    FEW = "too few free"
    SPLIT = "free on several nodes"
    BROKEN = "do not work"
    CLOSED = "nodes take no servers"
    TOO_LITTLE = "too little left"
    SLOTS = "as many servers as nodes may hold"
    CROWD = "kept off by others"
    NO_NEW_NODE = "no new node"
    QUOTA_IN_USE = "the queue's quota is in use"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Claim:
    """A kind of reason with its numbers, in the order of the sentence."""

    kind: Kind
    numbers: tuple[int, ...] = ()


_BROKEN_TOO = r"(?:, (?P<broken>\d+) (?:does|do) not work)?\.?"
_SENTENCES = (
    (Kind.IN_USE, r"(?:all (?P<total>\d+)|the only one)(?: that the server could use now)? (?:is|are) in use"),
    (Kind.FEW, r"only (?P<free>\d+) of (?P<total>\d+)(?: that the server could use now)? (?:is|are) free"),
    (Kind.SPLIT, r"(?P<free>\d+) are free, but no more than (?P<most>\d+) on one node"),
    (Kind.BROKEN, r"(?:all (?P<total>\d+) do|the only one does) not work right now"),
    (Kind.CLOSED, r"the nodes(?: with .+)? take no new servers right now"),
    (Kind.SLOTS, r"the nodes with .+ hold as many servers as they may"),
    (Kind.CROWD, r"other servers keep it off the nodes with .+"),
    (Kind.TOO_LITTLE, r"no node(?: with .+)? has .+ left(?:; the most is .+| that the server needs)?"),
    (Kind.NO_NEW_NODE, r"no more nodes can be added right now|all nodes that can be added are already taken"),
    (Kind.NO_NEW_NODE, r"all suitable nodes are taken"),
    (Kind.QUOTA_IN_USE, r"the quota of the queue \S+ is in use"),
)
_ORDER = ("free", "total", "most")


def read_claim(reason: str) -> Claim:
    """Return what an English reason claims; the number of broken devices is left out."""
    for kind, pattern in _SENTENCES:
        found = re.fullmatch(f"(?:{pattern}){_BROKEN_TOO}", reason, re.IGNORECASE)
        if found:
            named = found.groupdict()
            if "total" in named and named["total"] is None:
                named["total"] = "1"
            return Claim(kind, tuple(int(named[name]) for name in _ORDER if named.get(name)))
    return Claim(Kind.OTHER)


def find_claim(view: View, pod: Manifest) -> Claim:
    """Return the claim that the facts make about a pod that is not created yet and does not start now."""
    could = facts.candidates(view, pod)
    if not could:
        return Claim(Kind.NO_NEW_NODE)
    now = [node for node in could if facts.takes_pods(node, pod)]
    if not now:
        return Claim(Kind.CLOSED)
    left = facts.free(view, now, pod=pod)
    needed = facts.requests(pod).get(GPU, 0)
    gpus = [max(0, each.get(GPU, 0)) for each in left]
    if needed and all(number < needed for number in gpus):
        healthy = sum(decode_resources(node["status"]["allocatable"]).get(GPU, 0) for node in now)
        return _gpu_claim(now, gpus, healthy=healthy, needed=needed)
    with_gpus = [each for each, number in zip(left, gpus, strict=True) if number >= needed]
    if all(each["pods"] < 1 for each in with_gpus):
        return Claim(Kind.SLOTS)
    if not any(facts.has_room(each, pod) for each in with_gpus):
        return Claim(Kind.TOO_LITTLE)
    return Claim(Kind.CROWD)


def _gpu_claim(now: list[Manifest], gpus: list[int], *, healthy: int, needed: int) -> Claim:
    free = sum(gpus)
    if not healthy:
        return Claim(Kind.BROKEN, (sum(decode_resources(node["status"]["capacity"]).get(GPU, 0) for node in now),))
    if not free:
        return Claim(Kind.IN_USE, (healthy,))
    return Claim(Kind.FEW, (free, healthy)) if free < needed else Claim(Kind.SPLIT, (free, max(gpus)))


_REFUSALS = {
    Kind.IN_USE: ("Insufficient nvidia.com/gpu",),
    Kind.FEW: ("Insufficient nvidia.com/gpu",),
    Kind.SPLIT: ("Insufficient nvidia.com/gpu",),
    Kind.BROKEN: ("Insufficient nvidia.com/gpu",),
    Kind.CLOSED: ("unschedulable", "untolerated taint"),
    Kind.TOO_LITTLE: ("Insufficient cpu", "Insufficient memory"),
    Kind.SLOTS: ("Too many pods",),
}
"""Kind → words of kube-scheduler, of which it has to say one."""


def is_confirmed(claim: Claim, words: str) -> bool:
    """Return whether kube-scheduler names an obstacle of this kind, too; it has words for some kinds only.

    :param words: message of the pod's condition PodScheduled.
    """
    expected = _REFUSALS.get(claim.kind)
    return expected is None or any(each in words for each in expected)
