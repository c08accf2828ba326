"""Reads whether an autoscaler adds a node for a pod, and why not: cluster-autoscaler, GKE's, and Karpenter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.progress.event_sources import AUTOSCALER_SOURCES, EventSource, SourcedEvent


class ScaleUpState(StrEnum):
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
class AutoscalerStatus:
    """The last thing that an autoscaler said."""

    state: ScaleUpState
    event: SourcedEvent

    @property
    def is_under_way(self) -> bool:
        """Whether there will be a node without anybody doing anything."""
        return self.state in (ScaleUpState.NEW_NODE, ScaleUpState.NODE_FOUND)


_AUTOSCALER_REASONS = frozenset(
    {"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp", "Nominated", "FailedScheduling"}
)
_REFUSALS = tuple(
    (growing, re.compile(pattern, re.IGNORECASE))
    for growing, pattern in (
        (ScaleUpState.OUT_OF_QUOTA, r"\bquota\b"),
        (ScaleUpState.OUT_OF_STOCK, r"out of resources|stockout|insufficient capacity|resource_pool_exhausted"),
        (ScaleUpState.AT_LIMIT, r"max (?:node group size|cluster \S+ limit|total nodes in cluster|limit) reached"),
        (ScaleUpState.AT_LIMIT, r"exceeds? limits? for nodepool|node limits have been exhausted|would exceed .*limit"),
        (ScaleUpState.BACKING_OFF, r"in backoff after failed scale-up"),
        (ScaleUpState.NOT_READY, r"not ready for scale-up"),
    )
)


def parse_autoscaler_events(events: Sequence[SourcedEvent]) -> AutoscalerStatus | None:
    """Return the last thing that an autoscaler said of a pod, None if none said anything."""
    for event in reversed(events):
        if event.source in AUTOSCALER_SOURCES and event.reason in _AUTOSCALER_REASONS:
            return AutoscalerStatus(state=_parse_state(event), event=event)
    return None


def _parse_state(event: SourcedEvent) -> ScaleUpState:
    if event.reason == "TriggeredScaleUp":
        return ScaleUpState.NEW_NODE
    if event.source is EventSource.KARPENTER and event.reason == "Nominated":
        return ScaleUpState.NEW_NODE if "nodeclaim/" in event.message else ScaleUpState.NODE_FOUND
    for growing, pattern in _REFUSALS:
        if pattern.search(event.message):
            return growing
    return ScaleUpState.OUT_OF_STOCK if event.reason == "FailedScaleUp" else ScaleUpState.NO_POOL
