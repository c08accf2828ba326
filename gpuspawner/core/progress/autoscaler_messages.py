"""Reads whether an autoscaler adds a node for a pod, and why not: cluster-autoscaler, GKE's, and Karpenter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.progress.event_sources import AUTOSCALERS, Event, Source


class Growing(StrEnum):
    """What an autoscaler does for a pod. The first of several reasons against it says most."""

    NEW_NODE = "new-node"
    """A new node is being added."""
    NODE_FOUND = "node-found"
    """A node that is there will do."""
    AT_LIMIT = "at-limit"
    OUT_OF_QUOTA = "out-of-quota"
    OUT_OF_STOCK = "out-of-stock"
    BACKING_OFF = "backing-off"
    """Adding one failed a short while ago."""
    NOT_READY = "not-ready"
    NO_POOL = "no-pool"
    """No pool that may grow has such nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The last thing that an autoscaler said."""

    growing: Growing
    event: Event

    @property
    def is_under_way(self) -> bool:
        """Whether there will be a node without anybody doing anything."""
        return self.growing in (Growing.NEW_NODE, Growing.NODE_FOUND)


_REASONS = frozenset({"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp", "Nominated", "FailedScheduling"})
_AGAINST = tuple(
    (growing, re.compile(pattern, re.IGNORECASE))
    for growing, pattern in (
        (Growing.OUT_OF_QUOTA, r"\bquota\b"),
        (Growing.OUT_OF_STOCK, r"out of resources|stockout|insufficient capacity|resource_pool_exhausted"),
        (Growing.AT_LIMIT, r"max (?:node group size|cluster \S+ limit|total nodes in cluster|limit) reached"),
        (Growing.AT_LIMIT, r"exceeds? limits? for nodepool|node limits have been exhausted|would exceed .*limit"),
        (Growing.BACKING_OFF, r"in backoff after failed scale-up"),
        (Growing.NOT_READY, r"not ready for scale-up"),
    )
)


def scaling(events: Sequence[Event]) -> Scaling | None:
    """Return the last thing that an autoscaler said of a pod, None if none said anything."""
    for event in reversed(events):
        if event.source in AUTOSCALERS and event.reason in _REASONS:
            return Scaling(growing=_growing(event), event=event)
    return None


def _growing(event: Event) -> Growing:
    if event.reason == "TriggeredScaleUp":
        return Growing.NEW_NODE
    if event.source is Source.KARPENTER and event.reason == "Nominated":
        return Growing.NEW_NODE if "nodeclaim/" in event.message else Growing.NODE_FOUND
    for growing, pattern in _AGAINST:
        if pattern.search(event.message):
            return growing
    return Growing.OUT_OF_STOCK if event.reason == "FailedScaleUp" else Growing.NO_POOL
