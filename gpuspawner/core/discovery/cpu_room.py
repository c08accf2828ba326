"""How large the nodes are, and whether one without GPUs has room: None or False where that is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression, build_gpu_node_exclusion, matches_expressions
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.cluster.model import Pod, Toleration
from gpuspawner.core.cluster.state import Inventory, get_occupancy
from gpuspawner.core.cluster.taints import tolerates_taints


def find_largest_node(inventory: Inventory) -> tuple[int, int] | None:
    """Return millicores and bytes that the node with the most memory has for pods, None when no node is known.

    The control plane's own nodes are left out; other taints may be tolerated by what a user picks.
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
    catalogue: Catalog,
    tolerations: Iterable[Toleration] = (),
    required: tuple[MatchExpression, ...] = (),
) -> bool:
    """Tell whether a server without a GPU would find room on a node without GPUs right now; False when not known.

    Pods without GPUs that wait for a node may take what is free there first. Which node each gets is for the scheduler
    to say, so there is room only on a node that would take all of them and this server.

    :param cpu_millis: request in millicores.
    :param memory_bytes: request in bytes.
    :param tolerations: what every server tolerates (KubeSpawner's).
    :param required: what the server demands of its node in any case.
    """
    known = get_occupancy(inventory)
    if known is None or not known.pods_known:
        return False
    occupancy = known.occupancy
    tolerated = tuple(tolerations)
    resources = {gpu.resource for gpu in (*catalogue.gpus.values(), *catalogue.hidden)}
    wanted = Counter({"cpu": cpu_millis, "memory": memory_bytes, "pods": 1})
    wanted.update(_sum_waiting_requests(occupancy.pending_pods, resources))
    demanded = (*build_gpu_node_exclusion(catalogue), *required)
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
    """Return what pods request that wait for a node and could get one without GPUs."""
    total: Counter[str] = Counter()
    for pod in pods:
        if not any(pod.requests.get(resource) for resource in gpu_resources):
            total.update({name: pod.requests.get(name, 0) for name in ("cpu", "memory")}, pods=1)
    return total
