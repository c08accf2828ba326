"""Queues of Kueue, and the verdict on a server that they will hold back."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from gpuspawner.core.catalog.kueue import read_capacity
from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.queue import QueueState
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, Taint
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.verdict import Verdict, predict_verdict

GPU = "nvidia.com/gpu"
GIB = 2**30
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={"gpu": ("T4",)})
SPOT = Taint(key="spot", value="", effect="NoSchedule")
NODES = (
    Node(
        name="plain",
        labels={"gpu": "T4", "pool": "a"},
        allocatable={GPU: 8, "cpu": 64_000, "memory": 64 * GIB, "pods": 9},
    ),
)
POD = Pod(
    name="jupyter-ada",
    namespace="hub",
    node=None,
    requests={GPU: 2, "cpu": 1000, "memory": GIB},
    constraints=PodConstraints(node_selector={"gpu": "T4"}, is_gated=True),
)
Json = dict[str, Any]


ACTIVE = {"type": "Active", "status": "True", "reason": "Ready"}


def flavor(name: str = "t4", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {"gpu": "T4"}, **spec}}


def cluster_queue(*flavors: str, gpus: int = 4, used: int = 0, pending: int = 0, cpu: int = 64, **spec: Any) -> Json:
    quotas = [(GPU, gpus), ("cpu", cpu), ("memory", "64Gi")]
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas]
    listed = [{"name": name, "resources": resources} for name in flavors or ("t4",)]
    group = {"coveredResources": [name for name, _ in quotas], "flavors": listed}
    usage = [{"name": name, "total": used if name == GPU else "0"} for name, _ in quotas]
    reserved = [{"name": name, "resources": deepcopy(usage)} for name in flavors or ("t4",)]
    return {
        "metadata": {"name": "cq"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
        "status": {"flavorsReservation": reserved, "pendingWorkloads": pending, "conditions": [ACTIVE]},
    }


FLAVORS = [flavor()]


def state(queue: Json | None = None, *, flavors: list[Json] | None = FLAVORS, **known: Any) -> QueueState:
    capacity = read_capacity(queue or cluster_queue(), flavors=flavors)
    return QueueState(name="gpus", namespace="hub", **{"capacity": capacity, "priority": 0, **known})


def inventory(nodes: tuple[Node, ...] = NODES) -> Inventory:
    return Inventory(
        nodes=nodes, occupancy=Occupancy.build(nodes, ()), scalable_pools=(), dra_resources=frozenset(), age_s=1.0
    )


def verdict(queue: QueueState | None, pod: Pod = POD, nodes: tuple[Node, ...] = NODES) -> Verdict:
    return predict_verdict(pod, inventory(nodes), gpu=T4, queue=queue, new_nodes=False)


def asking(**requests: int) -> Pod:
    return replace(
        POD, requests={**POD.requests, **{GPU if name == "gpus" else name: n for name, n in requests.items()}}
    )


def broken(queue: Json, number: int, **usage: object) -> Json:
    """Return a ClusterQueue with another usage of GPUs in one of its flavors."""
    queue["status"]["flavorsReservation"][number]["resources"][0] |= usage
    return queue


def conditions(*listed: Json) -> Json:
    queue = cluster_queue()
    return {**queue, "status": {**queue["status"], "conditions": list(listed)}}


PREEMPTS: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}
NOT_SET_UP = "Availability unknown: the queue gpus is stopped, or not set up completely."
ANOTHER_SYSTEM = "Availability unknown: another system decides when it may start."
QUEUE_DECIDES = "Availability unknown: the queue gpus decides when it may start."
