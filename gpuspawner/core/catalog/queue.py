"""Model the queue of Kueue in which servers with a GPU wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuspawner.core.catalog.kueue import PRIORITY_LABEL, QUEUE_LABEL, QueueCapacity, QueueReason
from gpuspawner.core.catalog.policy_model import ANY
from gpuspawner.core.cluster.selectors import selects_namespace
from gpuspawner.core.value_types import FromSettings, Many, Pattern, Slug, setting

QueueName = Annotated[
    str,
    Pattern(
        r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$",
        rule="must be the name of a queue: at most 63 lower-case letters, digits, - and ., such as gpu-users",
    ),
]
"""Name of a LocalQueue or WorkloadPriorityClass of Kueue. It must be a valid label value, because it becomes
the value of a pod's label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueQueue(FromSettings):
    """The queue of Kueue in which servers with a GPU wait."""

    local_queue: Annotated[QueueName, setting("Name of a LocalQueue in the namespace of the servers.")]
    priority_class: Annotated[QueueName, setting("Name of a WorkloadPriorityClass of the cluster.")] = ""
    timeout_s: Annotated[
        int | None,
        setting("Seconds that the hub waits for a server that is queued.", alias="timeout", ge=1, le=7 * 24 * 3600),
    ] = None
    gpus: Annotated[Many[Slug], setting("GPU types whose servers are queued; * stands for all.", min_length=1)] = (ANY,)

    def accepts(self, gpu: str) -> bool:
        """Return whether servers with the given GPU type use this queue.

        :param gpu: slug of the type.
        """
        return ANY in self.gpus or gpu in self.gpus

    @property
    def labels(self) -> dict[str, str]:
        """The labels that make Kueue queue a pod."""
        priority = {PRIORITY_LABEL: self.priority_class} if self.priority_class else {}
        return {QUEUE_LABEL: self.local_queue, **priority}


MAX_LISTED = 1000
"""Kueue lists at most this many pending Workloads of a ClusterQueue (``DefaultPendingWorkloadsLimit`` of
``pkg/constants``). More Workloads may wait if a list has this length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """What the hub knows about the queue of a server whose pod does not exist yet.

    :param name: name of the LocalQueue.
    :param namespace: namespace of the LocalQueue and the pod.
    :param problem: why the LocalQueue admits nothing; None if it admits Workloads, or if its state is unknown.
    :param capacity: what the LocalQueue's ClusterQueue can admit; None if unknown.
    :param waiting: priorities of the Workloads that wait in the ClusterQueue, in Kueue's order; None if unknown.
    :param priority: priority of the server's Workload; None if unknown.
    :param missing_class: name of the server's WorkloadPriorityClass if the cluster lacks it; Kueue then creates no
        Workload. Empty if the class exists, or if the hub does not know.
    :param age_s: seconds since the hub read the oldest of these facts.
    """

    name: str
    namespace: str
    problem: QueueReason | None = None
    capacity: QueueCapacity | None = None
    waiting: tuple[int, ...] | None = None
    priority: int | None = None
    missing_class: str = ""
    age_s: float = 0.0

    @property
    def is_selected(self) -> bool | None:
        """Whether the ClusterQueue's namespace selector selects the server's namespace; None if unknown."""
        return None if self.capacity is None else selects_namespace(self.capacity.namespaces, self.namespace)

    @property
    def may_have_waiting(self) -> bool:
        """Whether a Workload waits in the ClusterQueue; True if this is unknown."""
        return self.waiting != () and (self.capacity is None or self.capacity.pending != 0)

    def count_ahead(self) -> int | None:
        """Return how many Workloads are ahead of the server's Workload in the queue, or None if unknown.

        Kueue sorts Workloads by priority, then by age (``queueOrderingFunc`` of ``pkg/cache/queue/cluster_queue.go``).
        The server's Workload will be the youngest. A Workload for which Kueue is preempting others stays first whatever
        its priority is (``stickyWorkload``).
        """
        if self.capacity is None or self.capacity.is_fair:
            return None
        if self.waiting is None or self.priority is None:
            return 0 if (self.capacity.pending if self.waiting is None else len(self.waiting)) == 0 else None
        ahead = sum(each >= self.priority for each in self.waiting)
        if self.waiting and self.waiting[0] < self.priority:
            if self.waiting[0] < max(self.waiting):
                ahead += 1
            elif self.capacity.may_preempt and not self.capacity.is_strict:
                return None
        return None if ahead == len(self.waiting) >= MAX_LISTED else ahead
