"""A first, honest count: how many units of a GPU type there are, and how many nobody has asked for.

Unknown stays unknown: None is never turned into 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuspawner.core.avoidance import MatchExpression, avoidance, fulfils
from gpuspawner.core.catalogue import Catalogue, GPUType, Toleration
from gpuspawner.core.inventory import Inventory, Node, Pod, Taint

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Units of one GPU type on nodes that take new pods.

    :param total: None when nodes could not be read.
    :param free: not requested by any pod that is bound to the node; None when pods or nodes could not be read.
    """

    total: int | None
    free: int | None


def count_each(
    gpus: Iterable[GPUType], inventory: Inventory, *, tolerations: tuple[Toleration, ...] = ()
) -> tuple[Count, ...]:
    """Return the count of each type, in their order; goes through the pods once, however many types there are.

    :param tolerations: what every server tolerates besides the types' own (KubeSpawner's).
    """
    wanted = tuple(gpus)
    if inventory.nodes is None:
        return tuple(Count(total=None, free=None) for _ in wanted)
    pools = _alike(inventory.nodes, {key for gpu in wanted for key in gpu.match})
    taken = None if inventory.pods is None else _requested(inventory.pods, {gpu.resource for gpu in wanted})
    return tuple(_count(gpu, pools, taken=taken, tolerations=tolerations) for gpu in wanted)


def _alike(nodes: Iterable[Node], keys: Collection[str]) -> list[list[Node]]:
    """Return nodes that take pods in groups that carry the same of these labels: few, however many nodes there are."""
    pools: dict[tuple[str | None, ...], list[Node]] = {}
    for node in nodes:
        if node.schedulable:
            pools.setdefault(tuple(map(node.labels.get, keys)), []).append(node)
    return list(pools.values())


def _count(
    gpu: GPUType,
    pools: Iterable[Sequence[Node]],
    *,
    taken: Mapping[str, Counter[str]] | None,
    tolerations: tuple[Toleration, ...],
) -> Count:
    tolerated = (*gpu.tolerations, *tolerations)
    nodes = [
        node
        for pool in pools
        if gpu.is_on(pool[0].labels)
        for node in pool
        if node.allocatable.get(gpu.resource) and tolerates(node, tolerated)
    ]
    total = sum(node.allocatable[gpu.resource] for node in nodes)
    if taken is None:
        return Count(total=total, free=None)
    # A node whose GPU broke may have promised more than it still has; that must not eat up another node's free ones.
    free = sum(max(0, _free(node, gpu.resource, taken=taken)) for node in nodes)
    return Count(total=total, free=free)


def largest_node(inventory: Inventory) -> tuple[int, int] | None:
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


def cpu_node_has_room(
    cpu_millis: int,
    memory_bytes: int,
    *,
    inventory: Inventory,
    catalogue: Catalogue,
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
    if inventory.nodes is None or inventory.pods is None:
        return False
    tolerated = tuple(tolerations)
    resources = {gpu.resource for gpu in (*catalogue.gpus.values(), *catalogue.hidden)}
    wanted = Counter({"cpu": cpu_millis, "memory": memory_bytes, "pods": 1})
    wanted.update(_waiting(inventory.pods, resources))
    taken = _requested(inventory.pods, ("cpu", "memory"))
    demanded = (*avoidance(catalogue), *required)
    return any(
        node.schedulable
        and fulfils(node.labels, demanded)
        and not any(node.allocatable.get(resource) for resource in resources)
        and tolerates(node, tolerated)
        and all(_free(node, name, taken=taken) >= number for name, number in wanted.items())
        for node in inventory.nodes
    )


def tolerates(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether a pod with these tolerations may be put on a node, as kube-scheduler's TaintToleration decides."""
    return all(
        any(_covers(toleration, taint) for toleration in tolerations)
        for taint in node.taints
        if taint.effect in _BLOCKING_EFFECTS
    )


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def _requested(pods: Iterable[Pod], resources: Collection[str]) -> Mapping[str, Counter[str]]:
    """Return node name → how much of these resources its pods request, the pods themselves counted as ``pods``."""
    taken: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.node is None:
            continue
        on_node = taken.get(pod.node)
        if on_node is None:
            on_node = taken[pod.node] = Counter()
        on_node["pods"] += 1
        for resource in resources:
            if requested := pod.requests.get(resource):
                on_node[resource] += requested
    return taken


def _waiting(pods: Iterable[Pod], gpu_resources: Collection[str]) -> Mapping[str, int]:
    """Return what pods request that have no node yet and could get one without GPUs."""
    total: Counter[str] = Counter()
    for pod in pods:
        if pod.node is None and not any(pod.requests.get(resource) for resource in gpu_resources):
            total.update({name: pod.requests.get(name, 0) for name in ("cpu", "memory")}, pods=1)
    return total


def _free(node: Node, resource: str, *, taken: Mapping[str, Counter[str]]) -> int:
    return node.allocatable.get(resource, 0) - taken.get(node.name, Counter[str]())[resource]
