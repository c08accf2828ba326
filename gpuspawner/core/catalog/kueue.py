"""Read and build Kueue's labels on pods, and read pods' scheduling gates.

Kueue adds a scheduling gate when a pod is created, and removes it when the queue has quota. kube-scheduler then picks
the node. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuspawner.core.json_access import as_dict, as_dicts, as_text

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


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
