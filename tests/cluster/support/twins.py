"""Whether servers are where they are by chance: twins of their pods, which may go anywhere but there.

Twins are as small as can be and find the nodes empty: a node that takes none is one that a server of this kind may not
be on, not one that is full or that has too few GPUs for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kubernetes.client import V1Pod

from tests.cluster.support.cloud import pool_of
from tests.cluster.support.pods import Pods
from tests.cluster.support.waiting import wait_for

_OWN = ("nodeName", "priority", "preemptionPolicy")
"""Fields that the API server and the scheduler have written."""
_NOWHERE = "nowhere"
_LITTLE = {"cpu": "1m", "memory": "1Mi"}


def places_elsewhere(pods: Pods, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return whose server could be put on a node that it should not be on, with that node; the servers are deleted.

    :param wanted: user → the pools whose nodes the server may be on.
    """
    nodes = [node.metadata.name for node in pods.core.list_node().items]
    twins = {}
    for user, pools in wanted.items():
        right = [name for name in nodes if pool_of(name) in pools]
        twins[user] = _twin(pods, pods.of(user), forbidden=right)
    pods.core.delete_collection_namespaced_pod(pods.namespace, grace_period_seconds=0)
    wait_for(lambda: not pods.all(), "nodes without servers")
    for twin in twins.values():
        pods.core.create_namespaced_pod(pods.namespace, twin)
    names = {user: twin["metadata"]["name"] for user, twin in twins.items()}
    decided = {user: wait_for(partial(_decision, pods, name), f"a word on {name}") for user, name in names.items()}
    return {user: node for user, node in decided.items() if node != _NOWHERE}


def _twin(pods: Pods, pod: V1Pod, *, forbidden: list[str]) -> dict[str, Any]:
    """Return a pod like this one that may not be on some nodes, and that needs little."""
    spec = pods.api.sanitize_for_serialization(pod.spec)
    for key in _OWN:
        spec.pop(key, None)
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        limits = _least(container.get("resources", {}).get("limits", {}))
        container["resources"] = {"limits": limits, "requests": limits}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    for term in required["nodeSelectorTerms"]:
        own = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": forbidden}
        term.setdefault("matchExpressions", []).append(own)
    return {"metadata": {"name": f"{pod.metadata.name}-twin"}, "spec": spec}


def _least(limits: Mapping[str, str]) -> dict[str, str]:
    """Return limits that any node keeps which has something of each resource: one GPU, where it is of GPUs."""
    return {**_LITTLE, **{name: "1" for name in limits if "/" in name}}


def _decision(pods: Pods, name: str) -> str:
    """Return the node of a pod, empty while the scheduler has not looked."""
    pod = pods.core.read_namespaced_pod(name, pods.namespace)
    refused = any((each.type, each.reason) == ("PodScheduled", "Unschedulable") for each in pod.status.conditions or [])
    return pod.spec.node_name or (_NOWHERE if refused else "")
