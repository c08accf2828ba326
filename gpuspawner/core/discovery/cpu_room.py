"""Find the largest node, and whether a node without GPUs has room for a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression, build_gpu_node_exclusion, matches_expressions
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Pod, Toleration
from gpuspawner.core.cluster.state import Inventory, get_occupancy
from gpuspawner.core.cluster.taints import tolerates_taints


def find_largest_node(inventory: Inventory) -> tuple[int, int] | None:
    """Return allocatable millicores and bytes of the node with the most memory, or None if no node is known.

    Nodes of the control plane do not count. Nodes with other taints do, because a GPU type may tolerate them.
    """
    sizes = [
        (node.allocatable.get("memory", 0), node.allocatable.get("cpu", 0))
        for node in inventory.nodes or ()
        if not any(taint.key.startswith("node-role.kubernetes.io/") for taint in node.taints)
    ]
    if not sizes:
        return None
    memory, cpu = max(sizes)
    return cpu, memory


def has_room_on_cpu_node(
    cpu_millis: int,
    memory_bytes: int,
    *,
    inventory: Inventory,
    catalog: Catalog,
    tolerations: Iterable[Toleration] = (),
    required: tuple[MatchExpression, ...] = (),
) -> bool:
    """Return whether a server without a GPU would fit on a node without GPUs now; False if that is unknown.

    Pending pods without GPUs may take the free room first, and kube-scheduler decides on which node. A node therefore
    needs room for all these pods and this server.

    :param cpu_millis: request in millicores.
    :param memory_bytes: request in bytes.
    :param inventory: the cluster's nodes and pods.
    :param catalog: the catalog, whose GPU types tell which nodes have GPUs.
    :param tolerations: tolerations of every server.
    :param required: node affinity of the server, besides the exclusion of GPU nodes.
    """
    known = get_occupancy(inventory)
    if known is None or not known.pods_known:
        return False
    occupancy = known.occupancy
    tolerated = tuple(tolerations)
    resources = {gpu.resource for gpu in (*catalog.gpus.values(), *catalog.hidden)}
    wanted = Counter({"cpu": cpu_millis, "memory": memory_bytes, "pods": 1})
    wanted.update(_sum_waiting_requests(occupancy.pending_pods, resources))
    demanded = (*build_gpu_node_exclusion(catalog), *required)
    return any(
        node.schedulable
        and matches_expressions(node.labels, demanded)
        and not any(node.allocatable.get(resource) for resource in resources)
        and node.published_by_dra.isdisjoint(resources)
        and tolerates_taints(node, tolerated)
        and wanted <= Counter(occupancy.get_free(node.name))
        for node in occupancy.nodes
    )


def _sum_waiting_requests(pods: Iterable[Pod], gpu_resources: Collection[str]) -> Mapping[str, int]:
    """Return the sum of the requests of those pods that request no GPU."""
    total: Counter[str] = Counter()
    for pod in pods:
        if not any(pod.requests.get(resource) for resource in gpu_resources):
            total.update({name: pod.requests.get(name, 0) for name in ("cpu", "memory")}, pods=1)
    return total
