"""Whether servers are where they are by chance: twins of their pods, which may go anywhere but there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kubernetes.client import V1Pod

from tests.cluster.support.cloud import pool_of
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

_OWN = ("nodeName", "priority", "preemptionPolicy")
"""What the API server and the scheduler have written."""
_NOWHERE = "nowhere"


def places_elsewhere(pods: Pods, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return whose server could be put on a node that it should not be on, with that node.

    :param wanted: user → the pools whose nodes the server may be on.
    """
    nodes = [node.metadata.name for node in pods.core.list_node().items]
    twins = {}
    for user, pools in wanted.items():
        right = [name for name in nodes if pool_of(name) in pools]
        twin = _twin(pods, pods.of(user), forbidden=right)
        twins[user] = pods.core.create_namespaced_pod(pods.namespace, twin).metadata.name
    decided = {user: wait_for(partial(_decision, pods, name), f"a word on {name}") for user, name in twins.items()}
    return {user: node for user, node in decided.items() if node != _NOWHERE}


def _twin(pods: Pods, pod: V1Pod, *, forbidden: list[str]) -> dict[str, Any]:
    """Return a pod like this one that may not be on some nodes."""
    spec = pods.api.sanitize_for_serialization(pod.spec)
    for key in _OWN:
        spec.pop(key, None)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    for term in required["nodeSelectorTerms"]:
        own = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": forbidden}
        term.setdefault("matchExpressions", []).append(own)
    return {"metadata": {"name": f"{pod.metadata.name}-twin"}, "spec": spec}


def _decision(pods: Pods, name: str) -> str:
    """Return the node of a pod, empty while the scheduler has not looked."""
    pod = pods.core.read_namespaced_pod(name, pods.namespace)
    refused = any((each.type, each.reason) == ("PodScheduled", "Unschedulable") for each in pod.status.conditions or [])
    return pod.spec.node_name or (_NOWHERE if refused else "")
