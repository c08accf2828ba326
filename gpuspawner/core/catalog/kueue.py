"""Read and build Kueue's labels on pods, read pods' scheduling gates, and read why a Workload is not admitted.

Kueue adds a scheduling gate when a pod is created, and removes it when the queue has quota. kube-scheduler then picks
the node. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/

Kueue creates a Workload for each pod and writes into its conditions why it does not admit it. Kueue 0.16 gives most of
these the reason ``Pending`` and the details as text (``pkg/scheduler/flavorassigner/flavorassigner.go``). Newer
versions have a reason for each case, behind the feature gate ``UnadmittedWorkloadsObservability``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuspawner.core.json_access import as_dict, as_dicts, as_text, find_condition

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


class QueueReason(StrEnum):
    """Why Kueue does not admit a pod. The values are Kueue's own reasons where Kueue has one."""

    NOT_EVALUATED = "PendingEvaluation"
    """Kueue has not decided about the Workload yet."""
    QUOTA_IN_USE = "WaitingForQuota"
    PREEMPTION = "WaitingForPreemptedWorkloads"
    OTHERS_NOT_READY = "WaitingForPodsReady"
    NO_TOPOLOGY = "TopologyPlacementFailed"
    CHECKS = "AdmissionChecks"
    """Kueue has reserved the quota, and an AdmissionCheck is not ready yet."""
    REQUEUED = "Requeued"
    """Kueue took the quota away again, and admits the Workload later."""
    EXCEEDS_QUOTA = "ExceedsMaxQuota"
    """The Workload requests more than every flavor's whole quota."""
    NO_FLAVOR = "NoMatchingFlavor"
    """No flavor of the queue has the requested resources, or matches the pod's node selector and tolerations."""
    STOPPED = "Suspended"
    """The LocalQueue or its ClusterQueue is stopped or not set up completely."""
    NO_QUEUE = "QueueNotFound"
    MISCONFIGURED = "Misconfigured"
    DEACTIVATED = "Deactivated"
    NOT_TAKEN = "NoWorkload"
    """Kueue works, but has created no Workload for the pod: for example, the WorkloadPriorityClass does not exist."""


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """Why Kueue does not admit a Workload.

    :param reason: None if unknown.
    :param requeue_at: time at which Kueue considers the Workload again, in RFC 3339; empty if Kueue gives none.
    """

    reason: QueueReason | None = None
    requeue_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueQueue:
    """The LocalQueue for servers with a GPU.

    :param local_queue: name of a LocalQueue in the servers' namespace.
    :param priority_class: name of a WorkloadPriorityClass; empty for the queue's default priority.
    :param timeout_s: seconds that the hub waits for a queued server; None = the same as for other servers.
    :param gpus: slugs of the GPU types whose servers are queued; None = all.
    """

    local_queue: str
    priority_class: str = ""
    timeout_s: int | None = None
    gpus: frozenset[str] | None = None

    def accepts(self, gpu: str) -> bool:
        """Return whether servers with a GPU type are queued.

        :param gpu: slug of the type.
        """
        return self.gpus is None or gpu in self.gpus

    @property
    def labels(self) -> dict[str, str]:
        """The labels that make Kueue queue a pod."""
        priority = {PRIORITY_LABEL: self.priority_class} if self.priority_class else {}
        return {QUEUE_LABEL: self.local_queue, **priority}


def read_queue_name(pod: Mapping[str, object]) -> str:
    """Return the name of a pod's LocalQueue, or an empty text if it has none.

    :param pod: v1 Pod as JSON; it may not be created yet.
    """
    return as_text(as_dict(as_dict(pod.get("metadata")).get("labels")).get(QUEUE_LABEL))


def is_gated(pod: Mapping[str, object]) -> bool:
    """Return whether an existing pod has scheduling gates."""
    return bool(as_dicts(as_dict(pod.get("spec")).get("schedulingGates")))


def is_gated_on_creation(pod: Mapping[str, object]) -> bool:
    """Return whether Kueue will add a scheduling gate when a pod is created; False for a pod that already exists."""
    return bool(read_queue_name(pod)) and not as_dict(pod.get("metadata")).get("uid")


def read_workload_state(workload: Mapping[str, object]) -> WorkloadState:
    """Return why Kueue does not admit a Workload.

    :param workload: ``kueue.x-k8s.io`` Workload as JSON.
    """
    status = as_dict(workload.get("status"))
    reserved = find_condition(workload, "QuotaReserved")
    reason, message = as_text(reserved.get("reason")), as_text(reserved.get("message"))
    requeue_at = as_text(as_dict(status.get("requeueState")).get("requeueAt"))
    if as_dict(workload.get("spec")).get("active") is False:
        return WorkloadState(QueueReason.DEACTIVATED)
    if not reserved:
        return WorkloadState(QueueReason.NOT_EVALUATED)
    if reserved.get("status") == "True":
        return WorkloadState(QueueReason.CHECKS)
    if reason == _INADMISSIBLE:
        return WorkloadState(_read_inadmissible_reason(workload))
    # Kueue sets the condition Requeued to false while it waits until it considers an evicted Workload again.
    if find_condition(workload, "Requeued").get("status") == "False" or requeue_at:
        return WorkloadState(QueueReason.REQUEUED, requeue_at)
    if reason in _KNOWN_REASONS:
        return WorkloadState(_KNOWN_REASONS[reason])
    return WorkloadState(_parse_pending_message(message) if reason == "Pending" else None)


def read_queue_problem(queue: Mapping[str, object]) -> QueueReason | None:
    """Return why a LocalQueue admits nothing now, or None if it admits Workloads or its state is unknown.

    :param queue: ``kueue.x-k8s.io`` LocalQueue as JSON.
    """
    active = find_condition(queue, "Active")
    if active.get("status") != "False":
        return None
    return QueueReason.NO_QUEUE if active.get("reason") == "ClusterQueueDoesNotExist" else QueueReason.STOPPED


_INADMISSIBLE = "Inadmissible"
_KNOWN_REASONS: Mapping[str, QueueReason] = {each.value: each for each in QueueReason} | {
    "Waiting": QueueReason.OTHERS_NOT_READY
}
_ASSIGNMENT = "couldn't assign flavors to pod set "
_REFUSALS = re.compile(
    r"insufficient quota for \S+ in flavor (?P<exceeded>[^\s,]+),[^>]*> maximum capacity \([^)]*\)"
    r"|insufficient unused quota for \S+ in flavor (?P<used>[^\s,]+), \S+ more needed"
    r"|flavor (?P<unmatched>\S+) doesn't match node affinity"
    r"|untolerated taint \{[^}]*\} in flavor (?P<tainted>[^\s,;]+)"
    r"|resource (?P<uncovered>\S+) unavailable in ClusterQueue"
)
"""The reasons that Kueue lists in the message of the condition QuotaReserved, one for each flavor that it tried."""
_PREEMPTION = re.compile(r"\. Pending the preemption of \d+ workload")
_MISFITS = re.compile(
    r"Workload namespace doesn't match ClusterQueue selector|resources validation failed:"
    r"|resources didn't satisfy LimitRange constraints:"
)


def _read_inadmissible_reason(workload: Mapping[str, object]) -> QueueReason:
    # Kueue refuses the request itself only together with the condition Requeued. In all other cases the LocalQueue or
    # its ClusterQueue admits nothing; read_queue_problem says whether that is still so, because Kueue does not update
    # this condition before the Workload's turn.
    is_refused = find_condition(workload, "Requeued").get("reason") == _INADMISSIBLE
    return QueueReason.MISCONFIGURED if is_refused else QueueReason.NOT_EVALUATED


def _parse_pending_message(message: str) -> QueueReason | None:
    if _PREEMPTION.search(message):
        return QueueReason.PREEMPTION
    if _MISFITS.match(message):
        return QueueReason.MISCONFIGURED
    if not message.startswith(_ASSIGNMENT):
        return None
    refusals = message.removeprefix(_ASSIGNMENT).partition(": ")[2]
    found = list(_list_refusals(refusals))
    flavors = {kind: {name for each, name in found if each == kind} for kind in _REFUSALS.groupindex}
    hopeless = flavors["exceeded"] | flavors["unmatched"] | flavors["tainted"]
    if flavors["uncovered"]:
        return QueueReason.NO_FLAVOR
    if flavors["used"] - hopeless:
        return QueueReason.QUOTA_IN_USE
    # An unknown reason may be about a flavor that will have room later.
    if not found or _REFUSALS.sub("", refusals).strip(" ,;."):
        return None
    return QueueReason.EXCEEDS_QUOTA if flavors["exceeded"] else QueueReason.NO_FLAVOR


def _list_refusals(message: str) -> Iterator[tuple[str, str]]:
    for each in _REFUSALS.finditer(message):
        kind = each.lastgroup or ""
        yield kind, each[kind]
