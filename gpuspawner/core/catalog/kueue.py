"""What Kueue wants to see on a pod that it is to queue, and how such a pod is told from others.

Kueue's webhook gates the pod as it is created, and takes the gate away when its queue has the quota for it; the pod's
node is for kube-scheduler to find after that. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuspawner.core.json_access import as_dict, as_dicts, as_text

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueQueue:
    """The queue that servers with a GPU go through.

    :param local_queue: name of a LocalQueue in the namespace of the servers.
    :param priority_class: name of a WorkloadPriorityClass, empty for the queue's usual priority.
    :param timeout_s: seconds that the hub waits for a server that is queued, None = as for any other.
    :param gpus: slugs of the GPU types whose servers are queued, None = all.
    """

    local_queue: str
    priority_class: str = ""
    timeout_s: int | None = None
    gpus: frozenset[str] | None = None

    def accepts(self, gpu: str) -> bool:
        """Tell whether servers with a GPU type are queued."""
        return self.gpus is None or gpu in self.gpus

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a pod that is to be queued."""
        priority = {PRIORITY_LABEL: self.priority_class} if self.priority_class else {}
        return {QUEUE_LABEL: self.local_queue, **priority}


def read_queue_name(pod: Mapping[str, object]) -> str:
    """Return the name of the LocalQueue that a pod goes through, empty for none.

    :param pod: as it is sent to the API server, or as that sends it.
    """
    return as_text(as_dict(as_dict(pod.get("metadata")).get("labels")).get(QUEUE_LABEL))


def is_gated(pod: Mapping[str, object]) -> bool:
    """Tell whether a pod that exists waits for somebody to let it through."""
    return bool(as_dicts(as_dict(pod.get("spec")).get("schedulingGates")))


def is_gated_on_creation(pod: Mapping[str, object]) -> bool:
    """Tell whether a pod that is still to be created will be gated then; of one that exists, its gates tell."""
    return bool(read_queue_name(pod)) and not as_dict(pod.get("metadata")).get("uid")
