"""Events that components write which cannot run here, as they were recorded, about a pod that is really there.

cluster-autoscaler, GKE's own and Kueue are no Go modules that could be built (see devcluster/tools). Only the
way of their words is real: from the API server through the hub's watch to the open page.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kubernetes.client import V1Pod

from tests.cluster.support.pods import Pods


def say(pods: Pods, user: str, *, component: str, reason: str, message: str, kind: str = "Normal") -> None:
    """Write an event about a user's pod, as ``component`` does."""
    pod = pods.of(user)
    now = datetime.now(UTC).isoformat()
    event = {
        "metadata": {"generateName": f"{pod.metadata.name}."},
        "involvedObject": _reference(pod),
        "source": {"component": component},
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    pods.core.create_namespaced_event(pods.namespace, event)


def _reference(pod: V1Pod) -> dict[str, str]:
    metadata = pod.metadata
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
    }
