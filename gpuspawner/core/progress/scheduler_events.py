"""Reads why kube-scheduler finds no node, in the words of its versions up to 1.33 and from 1.34.2.

``0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint(s). preemption: …``. Each
node counts under one or several reasons. An event's text is cut at 1024 characters, the condition PodScheduled has
all of it. What is said of preemption says nothing of the nodes.

Reads whether an autoscaler adds a node for a pod, and why not: cluster-autoscaler, GKE's, and Karpenter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpuspawner.core.progress.events import AUTOSCALER_SOURCES, EventSource, SourcedEvent


class RefusalReason(StrEnum):
    """Why a node does not take a pod."""

    DEVICES = "devices"
    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    PODS = "pods"
    VOLUME_IN_USE = "volume-in-use"
    VOLUME_LIMIT = "volume-limit"
    VOLUME_MISSING = "volume-missing"
    VOLUME_ZONE = "volume-zone"
    CORDONED = "cordoned"
    NOT_READY = "not-ready"
    TAINTED = "tainted"
    OTHER_PODS = "other-pods"
    UNSUITABLE = "unsuitable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRefusals:
    """What kube-scheduler says of the nodes.

    :param nodes: how many there are, None where it does not say.
    :param counts: how many nodes fall short of what; 0 where it holds for the pod as a whole.
    """

    nodes: int | None = None
    counts: Mapping[RefusalReason, int] = field(default_factory=dict)


_TOTAL = re.compile(r"\b0/(\d{1,9}) nodes are available")
_PREEMPTION = re.compile(r"\bpreemption: |\bno new claims to deallocate")
"""Where it stops to speak of the nodes."""
_COUNT = r"(?:\b(\d{1,9}) )?"
_RESOURCE = re.compile(_COUNT + r"Insufficient ([^\s,]+)")
_TAINT = re.compile(_COUNT + r"node\(s\) had (?:untolerated )?taint(?:\(s\))?(?: \{([^:}]*))?")
_NODE_TAINTS = {
    "node.kubernetes.io/unschedulable": RefusalReason.CORDONED,
    "node.kubernetes.io/not-ready": RefusalReason.NOT_READY,
    "node.kubernetes.io/unreachable": RefusalReason.NOT_READY,
    "node.kubernetes.io/network-unavailable": RefusalReason.NOT_READY,
    "node.cloudprovider.kubernetes.io/uninitialized": RefusalReason.NOT_READY,
}
_RESOURCES = {
    "cpu": RefusalReason.CPU,
    "memory": RefusalReason.MEMORY,
    "ephemeral-storage": RefusalReason.DISK,
    "pods": RefusalReason.PODS,
}
_OTHER_REASONS = tuple(
    (shortcoming, re.compile(_COUNT + pattern))
    for shortcoming, pattern in (
        (RefusalReason.PODS, r"Too many pods"),
        (RefusalReason.DEVICES, r"(?:node\(s\) )?cannot allocate all claims"),
        (RefusalReason.VOLUME_IN_USE, r"node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod"),
        (RefusalReason.VOLUME_LIMIT, r"node\(s\) exceed max volume count"),
        (RefusalReason.VOLUME_MISSING, r"node\(s\) didn't find available persistent volumes to bind"),
        (RefusalReason.VOLUME_MISSING, r"pod has unbound immediate PersistentVolumeClaims"),
        (RefusalReason.VOLUME_MISSING, r'persistentvolumeclaim "[^"]*" (?:not found|is being deleted)'),
        (RefusalReason.VOLUME_ZONE, r"node\(s\) had no available volume zone"),
        (RefusalReason.VOLUME_ZONE, r"node\(s\) had volume node affinity conflict"),
        (RefusalReason.VOLUME_ZONE, r"node\(s\) didn't match PersistentVolume's node affinity"),
        (RefusalReason.CORDONED, r"node\(s\) were unschedulable"),
        (RefusalReason.NOT_READY, r"node\(s\) were not ready"),
        (RefusalReason.OTHER_PODS, r"node\(s\) didn't (?:match|satisfy) (?:existing pods |pod )(?:anti-)?affinity"),
        (RefusalReason.OTHER_PODS, r"node\(s\) didn't match pod topology spread constraints"),
        (RefusalReason.OTHER_PODS, r"node\(s\) didn't have free ports"),
        (RefusalReason.UNSUITABLE, r"node\(s\) didn't match (?:Pod's )?node (?:affinity|selector)"),
        (RefusalReason.UNSUITABLE, r"node\(s\) didn't satisfy plugin"),
    )
)


def parse_refusals(message: str) -> SchedulerRefusals:
    """Return what a message of FailedScheduling or of the condition PodScheduled says, nothing where it is unknown."""
    aside = _PREEMPTION.search(message)
    said = message[: aside.start()] if aside else message
    total = _TOTAL.search(said)
    counts: dict[RefusalReason, int] = {}
    for shortcoming, number in (*_parse_resources(said), *_parse_taints(said), *_parse_others(said)):
        # Nodes with different taints are different nodes; else the most that is sure is the largest number.
        known = counts.get(shortcoming, 0)
        counts[shortcoming] = known + number if shortcoming is RefusalReason.TAINTED else max(known, number)
    return SchedulerRefusals(nodes=int(total[1]) if total else None, counts=counts)


def _parse_resources(said: str) -> list[tuple[RefusalReason, int]]:
    found = []
    for number, name in _RESOURCE.findall(said):
        resource = name.rstrip(".;")
        kind = RefusalReason.MEMORY if resource.startswith("hugepages-") else RefusalReason.DEVICES
        found.append((_RESOURCES.get(resource, kind), int(number or 0)))
    return found


def _parse_taints(said: str) -> list[tuple[RefusalReason, int]]:
    found = _TAINT.findall(said)
    return [(_NODE_TAINTS.get(key.strip(), RefusalReason.TAINTED), int(number or 0)) for number, key in found]


def _parse_others(said: str) -> list[tuple[RefusalReason, int]]:
    return [
        (shortcoming, int(number or 0)) for shortcoming, pattern in _OTHER_REASONS for number in pattern.findall(said)
    ]


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
