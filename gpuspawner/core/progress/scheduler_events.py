"""Parses messages of kube-scheduler, of autoscalers and of Kueue about a pending pod.

kube-scheduler writes, for example: ``0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated
taint {nvidia.com/gpu: present}. preemption: …``. From Kubernetes 1.34.2 on, the text is ``untolerated taint(s)``,
without the taint's key and value. kube-scheduler may count a node under several reasons. It cuts an event's message at
1024 characters; the condition PodScheduled has the whole message. This module ignores the text after ``preemption:``.

cluster-autoscaler, GKE's autoscaler and Karpenter report in events whether they add a node, or why they do not.

Kueue creates a Workload for each pod. The Workload's conditions say why Kueue does not admit the pod. In Kueue 0.16,
most of these conditions have the reason ``Pending``, and only the condition's message says why
(``pkg/scheduler/flavorassigner/flavorassigner.go``). With the feature gate ``UnadmittedWorkloadsObservability``, newer
versions have more reasons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.json_access import as_dict, as_message, as_text, find_condition
from gpuspawner.core.progress.events import AUTOSCALER_SOURCES, EventSource, SourcedEvent


class RefusalReason(StrEnum):
    """Why kube-scheduler does not place a pod on a node."""

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


Refusals = Mapping[RefusalReason, int]
"""Reason → number of nodes that kube-scheduler refused for this reason. The number is 0 for a reason that is about the
pod itself (a missing PersistentVolumeClaim, for example): the message then has no number."""

_PREEMPTION = re.compile(r"\bpreemption: |\bno new claims to deallocate")
"""Matches the beginning of the message's part about preemption or ResourceClaims, which this module ignores."""
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
    (reason, re.compile(_COUNT + pattern))
    for reason, pattern in (
        (RefusalReason.PODS, r"Too many pods"),
        (RefusalReason.DEVICES, r"(?:node\(s\) )?cannot allocate all claims"),
        (RefusalReason.VOLUME_IN_USE, r"node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod"),
        (RefusalReason.VOLUME_LIMIT, r"node\(s\) exceed max volume count"),
        (RefusalReason.VOLUME_LIMIT, r"node\(s\) did not have enough free storage"),
        (RefusalReason.VOLUME_MISSING, r"node\(s\) didn't find available persistent volumes to bind"),
        (RefusalReason.VOLUME_MISSING, r"pod has unbound immediate PersistentVolumeClaims"),
        (RefusalReason.VOLUME_MISSING, r'persistentvolumeclaim "[^"]*" (?:not found|is being deleted)'),
        (RefusalReason.VOLUME_MISSING, r'persistentvolumeclaim "[^"]*" bound to non-existent persistentvolume'),
        (RefusalReason.VOLUME_MISSING, r"node\(s\) unavailable due to one or more pvc\(s\) bound to non-existent pv"),
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


def parse_refusals(message: str) -> Refusals:
    """Return why kube-scheduler finds no node, from its event FailedScheduling or the condition PodScheduled.

    Parts of the message that have an unknown format are ignored.
    """
    preemption = _PREEMPTION.search(message)
    text = message[: preemption.start()] if preemption else message
    counts: dict[RefusalReason, int] = {}
    others = [(reason, int(number or 0)) for reason, pattern in _OTHER_REASONS for number in pattern.findall(text)]
    for reason, number in (*_parse_resources(text), *_parse_taints(text), *others):
        # kube-scheduler counts a node under one taint only, so add up the counts of several taints. Texts about other
        # reasons can count the same node twice, so keep the largest count.
        known = counts.get(reason, 0)
        counts[reason] = known + number if reason is RefusalReason.TAINTED else max(known, number)
    return counts


def _parse_resources(text: str) -> list[tuple[RefusalReason, int]]:
    found = []
    for number, name in _RESOURCE.findall(text):
        resource = name.rstrip(".;")
        kind = RefusalReason.MEMORY if resource.startswith("hugepages-") else RefusalReason.DEVICES
        found.append((_RESOURCES.get(resource, kind), int(number or 0)))
    return found


def _parse_taints(text: str) -> list[tuple[RefusalReason, int]]:
    found = _TAINT.findall(text)
    return [(_NODE_TAINTS.get(key.strip(), RefusalReason.TAINTED), int(number or 0)) for number, key in found]


class ScaleUpState(StrEnum):
    """What an autoscaler does for a pending pod, or why it does nothing."""

    NEW_NODE = "new-node"
    """A new node is being added."""
    NODE_FOUND = "node-found"
    """The autoscaler expects the pod to run on an existing node."""
    AT_LIMIT = "at-limit"
    OUT_OF_QUOTA = "out-of-quota"
    OUT_OF_STOCK = "out-of-stock"
    BACKING_OFF = "backing-off"
    """The autoscaler pauses, because it failed to add a node recently."""
    NOT_READY = "not-ready"
    NODES_FAIL = "nodes-fail"
    """The autoscaler has requested one node after another for the pod, and none has come."""
    NO_POOL = "no-pool"
    """The autoscaler cannot add a node on which the pod could run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerStatus:
    """The newest report of one autoscaler about a pod.

    :param requests: number of nodes that the autoscaler has requested for the pod since it last refused the pod. Only
        Karpenter names each request (a NodeClaim), so the number is 0 for other autoscalers.
    """

    state: ScaleUpState
    event: SourcedEvent
    requests: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether the autoscaler is adding a node for the pod, or has found an existing node for the pod."""
        return self.state in (ScaleUpState.NEW_NODE, ScaleUpState.NODE_FOUND)

    @property
    def since(self) -> str:
        """When the autoscaler made this report first, in RFC 3339; empty if unknown.

        While Karpenter waits for a node, it repeats the event, so the last time says nothing. cluster-autoscaler writes
        an event for each increase of a group's size, and these events have the same text: the last one counts.
        """
        return self.event.first_at if self.event.source is EventSource.KARPENTER else self.event.last_at


MAX_REQUESTS = 6
"""If Karpenter has created this many NodeClaims in a row for a pod, its newest NodeClaim counts as hopeless, too.

Karpenter deletes a NodeClaim if the provider has no such machine, and then creates the next. The pod gets no event that
says so (kubernetes-sigs/karpenter#2159)."""

_AUTOSCALER_REASONS = frozenset(
    {"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp", "Nominated", "FailedScheduling"}
)
_REFUSALS = tuple(
    (state, re.compile(pattern, re.IGNORECASE))
    for state, pattern in (
        (ScaleUpState.OUT_OF_QUOTA, r"\bquota\b"),
        (ScaleUpState.OUT_OF_STOCK, r"out of resources|stockout|insufficient capacity|resource_pool_exhausted"),
        (ScaleUpState.AT_LIMIT, r"max (?:node group size|cluster \S+ limit|total nodes in cluster|limit) reached"),
        (
            ScaleUpState.AT_LIMIT,
            r"exceeds? limits? for nodepool|node limits have been exhausted|would exceed .{0,200}limit",
        ),
        (ScaleUpState.BACKING_OFF, r"in backoff after failed scale-up"),
        (ScaleUpState.NOT_READY, r"not ready for scale-up"),
    )
)
"""Reasons why an autoscaler adds no node, each with a pattern of the autoscaler's message; the first match decides."""


_NODE_CLAIM = re.compile(r"\bnodeclaim/([\w.-]{1,253})")


def list_autoscaler_statuses(events: Sequence[SourcedEvent]) -> tuple[AutoscalerStatus, ...]:
    """Return the newest report of each autoscaler about a pod, the newest first.

    Several autoscalers may run in a cluster, and each decides without the others.
    """
    by_component: dict[str, list[SourcedEvent]] = {}
    for event in reversed(events):
        if event.source in AUTOSCALER_SOURCES and event.reason in _AUTOSCALER_REASONS:
            by_component.setdefault(event.component, []).append(event)
    return tuple(map(_build_status, by_component.values()))


def _build_status(events: Sequence[SourcedEvent]) -> AutoscalerStatus:
    """Return the status of an autoscaler that wrote the given events, the newest first."""
    state, accepting = _parse_state(events[0]), takewhile(lambda event: event.reason == "Nominated", events)
    requests = len({name for event in accepting for name in _NODE_CLAIM.findall(event.message)})
    if state is ScaleUpState.NEW_NODE and requests >= MAX_REQUESTS:
        state = ScaleUpState.NODES_FAIL
    return AutoscalerStatus(state=state, event=events[0], requests=requests)


def _parse_state(event: SourcedEvent) -> ScaleUpState:
    if event.reason == "TriggeredScaleUp":
        return ScaleUpState.NEW_NODE
    if event.source is EventSource.KARPENTER and event.reason == "Nominated":
        return ScaleUpState.NEW_NODE if "nodeclaim/" in event.message else ScaleUpState.NODE_FOUND
    for state, pattern in _REFUSALS:
        if pattern.search(event.message):
            return state
    return ScaleUpState.OUT_OF_STOCK if event.reason == "FailedScaleUp" else ScaleUpState.NO_POOL


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """Why Kueue does not admit a Workload.

    :param reason: why Kueue does not admit the Workload; None if unknown.
    :param requeue_at: time at which Kueue considers the Workload again, in RFC 3339; empty if Kueue gives none.
    """

    reason: QueueReason | None = None
    requeue_at: str = ""


def read_workload_state(workload: Mapping[str, object]) -> WorkloadState:
    """Return why Kueue does not admit a Workload."""
    status = as_dict(workload.get("status"))
    reserved = find_condition(workload, "QuotaReserved")
    reason, message = as_text(reserved.get("reason")), as_message(reserved.get("message"))
    requeue_at = as_text(as_dict(status.get("requeueState")).get("requeueAt"))
    if as_dict(workload.get("spec")).get("active") is False:
        return WorkloadState(QueueReason.DEACTIVATED)
    if not reserved:
        return WorkloadState(QueueReason.NOT_EVALUATED)
    if reserved.get("status") == "True":
        return WorkloadState(QueueReason.CHECKS)
    if reason == _INADMISSIBLE:
        return WorkloadState(_read_inadmissible_reason(workload))
    # After Kueue has evicted a Workload, the condition Requeued is False until Kueue considers the Workload again.
    if find_condition(workload, "Requeued").get("status") == "False" or requeue_at:
        return WorkloadState(QueueReason.REQUEUED, requeue_at)
    if reason in _KNOWN_REASONS:
        return WorkloadState(_KNOWN_REASONS[reason])
    return WorkloadState(_parse_pending_message(message) if reason == "Pending" else None)


_INADMISSIBLE = "Inadmissible"
_KNOWN_REASONS: Mapping[str, QueueReason] = {each.value: each for each in QueueReason} | {
    "Waiting": QueueReason.OTHERS_NOT_READY
}
_ASSIGNMENT = "couldn't assign flavors to pod set "
_FLAVOR_REFUSALS = re.compile(
    r"insufficient quota for \S+ in flavor (?P<exceeded>[^\s,]+),[^>]{0,500}> maximum capacity"
    r" \([^)]{0,500}\)"
    r"|insufficient unused quota for \S+ in flavor (?P<used>[^\s,]+), \S+ more needed"
    r"|flavor (?P<unmatched>\S+) doesn't match node affinity"
    r"|untolerated taint \{[^}]{0,500}\} in flavor (?P<tainted>[^\s,;]+)"
    r"|resource (?P<uncovered>\S+) unavailable in ClusterQueue"
)
"""The reasons that Kueue lists in the message of the condition QuotaReserved, one for each ResourceFlavor that Kueue
tried. The last pattern matches the reason for a resource that no ResourceFlavor of the ClusterQueue has."""
_WORKLOAD_PREEMPTION = re.compile(r"\. Pending the preemption of \d+ workload")
_MISFITS = re.compile(
    r"Workload namespace doesn't match ClusterQueue selector|resources validation failed:"
    r"|resources didn't satisfy LimitRange constraints:"
)


def _read_inadmissible_reason(workload: Mapping[str, object]) -> QueueReason:
    # Kueue writes the reason Inadmissible in two cases:
    # - It refuses what this Workload requests. Only then does the condition Requeued have this reason, too.
    # - The queue admitted no Workloads at that time. It may admit Workloads now.
    is_refused = find_condition(workload, "Requeued").get("reason") == _INADMISSIBLE
    return QueueReason.MISCONFIGURED if is_refused else QueueReason.NOT_EVALUATED


def _parse_pending_message(message: str) -> QueueReason | None:
    if _WORKLOAD_PREEMPTION.search(message):
        return QueueReason.PREEMPTION
    if _MISFITS.match(message):
        return QueueReason.MISCONFIGURED
    if not message.startswith(_ASSIGNMENT):
        return None
    refusals = message.removeprefix(_ASSIGNMENT).partition(": ")[2]
    flavors: dict[str, set[str]] = {kind: set() for kind in _FLAVOR_REFUSALS.groupindex}
    for refusal in _FLAVOR_REFUSALS.finditer(refusals):
        kind = refusal.lastgroup or ""
        flavors[kind].add(refusal[kind])
    hopeless = flavors["exceeded"] | flavors["unmatched"] | flavors["tainted"]
    if flavors["uncovered"]:
        return QueueReason.NO_FLAVOR
    if flavors["used"] - hopeless:
        return QueueReason.QUOTA_IN_USE
    # A text that no pattern matches may be about a ResourceFlavor whose quota becomes free later.
    if not any(flavors.values()) or _FLAVOR_REFUSALS.sub("", refusals).strip(" ,;."):
        return None
    return QueueReason.EXCEEDS_QUOTA if flavors["exceeded"] else QueueReason.NO_FLAVOR
