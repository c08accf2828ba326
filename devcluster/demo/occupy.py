"""Fills the simulated nodes, so that they look like those of a cluster in use and nothing is ever placed on them."""

from __future__ import annotations

from typing import Any

from kubernetes.client import ApiClient, ApiException, CoreV1Api

from devcluster.hub_rbac import ensure_namespace
from devcluster.simulated import SIMULATED

NAMESPACE = "simulated-users"
HTTP_CONFLICT = 409
# Resources that a pod cannot ask for, or that are no matter of room for a server.
_NOT_ASKED_FOR = {"pods", "ephemeral-storage"}


def occupy_simulated_nodes(api: ApiClient, *, image: str) -> int:
    """Put one pod on each simulated node that asks for all it has; return the number of nodes.

    KWOK says that these pods run. Nodes that are occupied already stay as they are.
    """
    ensure_namespace(api, NAMESPACE)
    core: Any = CoreV1Api(api)  # typed for its own models only, though it takes plain dicts as well
    nodes = core.list_node(label_selector=f"{SIMULATED}=true").items
    for node in nodes:
        try:
            core.create_namespaced_pod(NAMESPACE, occupant(node, image=image))
        except ApiException as error:
            if error.status != HTTP_CONFLICT:
                raise
    return len(nodes)


def occupant(node: Any, *, image: str) -> dict[str, Any]:
    """Return the pod that takes everything a node has. It names its node itself: no scheduler has to agree."""
    everything = {name: amount for name, amount in node.status.allocatable.items() if name not in _NOT_ASKED_FOR}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"everybody-on-{node.metadata.name}"},
        "spec": {
            "nodeName": node.metadata.name,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "work", "image": image, "resources": {"limits": everything, "requests": everything}}
            ],
        },
    }
