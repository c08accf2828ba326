"""Check whether a pod would run on a node that an autoscaler may add.

Kubernetes has no API for future nodes. A :class:`ScalableNodePool` comes from the ``scale_up`` setting of a GPU type
(:func:`build_scale_up_pools`) or from a Karpenter NodePool (:mod:`gpuspawner.core.autoscaling.karpenter`). A Karpenter
NodePool contains constraints on machines (:class:`MachineConstraints`), not a list of machines that the cloud offers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from gpuspawner.core.catalog.model import GPUType, ScaleUp
from gpuspawner.core.cluster.model import (
    MachineConstraints,
    Node,
    Pod,
    PodConstraints,
    PossibleLabels,
    ScalableNodePool,
)
from gpuspawner.core.cluster.selectors import (
    guarantees_node_affinity,
    matches_any_term,
    matches_node_affinity,
    may_match_node_affinity,
)
from gpuspawner.core.cluster.taints import is_reserved_for_others, tolerates_taints
from gpuspawner.core.scheduling.results import Answer

NODE_COUNT = "nodes"
"""Key of Karpenter's limit on the number of nodes (https://karpenter.sh/docs/concepts/nodepools/#speclimits)."""


def is_within_limits(machines: MachineConstraints, requests: Mapping[str, int]) -> bool:
    """Return whether the limits of a NodePool without any node allow a machine for a pod.

    How large the machine is, only Karpenter knows. So this function compares the limits with the pod's requests.
    """
    return _subtract(requests, machines.limits) is not None


def has_capacity_left(
    machines: MachineConstraints, requests: Mapping[str, int], *, ahead: Iterable[Mapping[str, int]] = ()
) -> bool:
    """Return whether a NodePool's remaining limits allow one more machine for each pod ahead and then for a pod.

    Each pod counts with its requests. A pod ahead that would exceed the limits gets no machine, as in Karpenter
    (pkg/controllers/provisioning/scheduling/scheduler.go).

    :param ahead: the requests of each pod that gets a machine before this pod.
    """
    remaining: Mapping[str, int] = machines.remaining
    for earlier in ahead:
        remaining = _subtract(earlier, remaining) or remaining
    return _subtract(requests, remaining) is not None


def _subtract(requests: Mapping[str, int], remaining: Mapping[str, int]) -> Mapping[str, int] | None:
    """Return what a NodePool's limits leave after a machine for a pod is added; None if they are too small.

    :param remaining: what the limits leave before the machine is added: resource → amount.
    """
    left = {name: limit - (1 if name == NODE_COUNT else requests.get(name, 0)) for name, limit in remaining.items()}
    return None if any(number < 0 for number in left.values()) else left


PREDICTABLE_DEVICES = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "habana.ai/gaudi"}
)
"""Extended resources whose amount Karpenter knows before a node exists. MIG slices and shared GPUs are not among them
(https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources)."""


def build_scale_up_pools(gpu: GPUType, nodes: Iterable[Node]) -> tuple[ScalableNodePool, ...]:
    """Return the node pools that a GPU type's ``scale_up`` settings describe, including those at ``max_nodes``.

    A node counts against ``max_nodes`` once it reports the type's GPUs. A starting node with the type's labels but
    without GPUs does not count: pending pods cannot use it yet, so the function treats it as a node still to be added.

    :param gpu: a GPU type. For a combined type, which offers several types as one, the result has a pool for each
        member type with ``scale_up``.
    :param nodes: the existing nodes of the type, or all nodes.
    """
    nodes = tuple(nodes)
    types = gpu.members or (gpu,)
    return tuple(_build_scale_up_pool(each, each.scale_up, nodes=nodes) for each in types if each.scale_up is not None)


def find_scale_up_minutes(gpu: GPUType) -> float | None:
    """Return the minutes until a new node is ready by a GPU type's ``scale_up`` settings; None if it has none.

    :param gpu: a GPU type. For a combined type, the result is the time of the slowest member: the autoscaler may add
        a node of any of them.
    """
    types = gpu.members or (gpu,)
    return max((member.scale_up.minutes for member in types if member.scale_up is not None), default=None)


def check_new_node(scalable_pool: ScalableNodePool, pod: Pod, *, gpu: GPUType | None = None) -> Answer:
    """Return whether a pod would run on a new node of a node pool.

    The answer is UNKNOWN if it depends on facts that only an existing node can show: its zone, undeclared labels and
    taints, other pods in its topology domain. For a Karpenter NodePool, YES means that no constraint forbids the pod;
    only Karpenter knows whether the cloud offers a large enough machine. The answer is not YES if the NodePool does not
    say that its machines have the GPUs that the pod requests.

    :param gpu: the GPU type that the pod requests; None for a pod without GPUs.
    """
    constraints, machines = pod.constraints, scalable_pool.machines
    if not may_take_pod(scalable_pool, pod):
        return Answer.NO
    if constraints.undecided or constraints.unread_claims or constraints.affinity or constraints.spread_constraints:
        return Answer.UNKNOWN
    if machines is not None:
        devices = {name for name, number in pod.requests.items() if number and "/" in name}
        has_devices = not devices or (gpu is not None and devices == {gpu.resource} and _has_type(scalable_pool, gpu))
        is_sure = machines.is_reliable and has_devices and guarantees_node_affinity(scalable_pool.labels, constraints)
        return Answer.YES if is_sure else Answer.UNKNOWN
    if not scalable_pool.examples:
        return Answer.UNKNOWN if constraints.volume_terms else Answer.YES
    return Answer.YES if any(_accepts_like(node, constraints) for node in scalable_pool.examples) else Answer.UNKNOWN


def has_room_after(scalable_pool: ScalableNodePool, pod: Pod, *, ahead: Sequence[Pod]) -> bool:
    """Return whether the new nodes of a node pool have room for a pod in addition to the pods ahead of it.

    If the pool's machine type is fixed, the function fills one new node after another with the pods ahead, the largest
    pod first. An autoscaler may need fewer nodes, so the pod may have room although the result is False. If Karpenter
    chooses the machines, :func:`has_capacity_left` gives the result.

    :param ahead: pending pods that start before ``pod``; those that cannot run on the pool's nodes are ignored.
    """
    ahead = [other for other in ahead if may_take_pod(scalable_pool, other)]
    if scalable_pool.machines is not None:
        return has_capacity_left(scalable_pool.machines, pod.requests, ahead=(each.requests for each in ahead))
    if scalable_pool.max_new_nodes is None:
        return True
    new_node = scalable_pool.node_allocatable
    nodes, free = 1, dict(new_node)
    for each in (*sorted(ahead, key=lambda other: _compute_share(other, new_node), reverse=True), pod):
        if not _has_room(free, each.requests):
            nodes, free = nodes + 1, dict(new_node)
            if nodes > scalable_pool.max_new_nodes:
                return False
        for name in free:
            free[name] -= 1 if name == "pods" else each.requests.get(name, 0)
    return nodes <= scalable_pool.max_new_nodes


def may_take_pod(scalable_pool: ScalableNodePool, pod: Pod) -> bool:
    """Return whether a pod may run on a node pool's new nodes.

    The result is False if the size, labels or taints of these nodes exclude the pod, or if the pool's limits do.
    Callers check many pods, so keep this cheap.
    """
    if scalable_pool.max_new_nodes == 0:
        return False
    machines = scalable_pool.machines
    is_large_enough = (
        _has_room(scalable_pool.node_allocatable, pod.requests)
        if machines is None
        else is_within_limits(machines, pod.requests)
    )
    return is_large_enough and may_match_pool(scalable_pool, pod.constraints)


def may_match_pool(scalable_pool: ScalableNodePool, constraints: PodConstraints) -> bool:
    """Return whether a node pool's new nodes may fit a pod's node selector, node affinity and tolerations.

    The function ignores the pod's requests. It checks the tolerations only for a Karpenter NodePool, because
    only a Karpenter NodePool declares the taints of its new nodes.
    """
    machines = scalable_pool.machines
    if machines is not None and not tolerates_taints(Node(name="", taints=machines.taints), constraints.tolerations):
        return False
    return may_match_node_affinity(scalable_pool.labels, constraints)


def may_add_gpu_type(scalable_pool: ScalableNodePool, gpu: GPUType) -> bool:
    """Return whether a Karpenter NodePool may add nodes with GPUs of a type.

    :param scalable_pool: a node pool. The result is False for a pool from a ``scale_up`` setting, because this is no
        Karpenter NodePool.
    """
    machines = scalable_pool.machines
    if machines is None or not is_within_limits(machines, {gpu.resource: 1}):
        return False
    return any(_may_match_labels(scalable_pool.labels, match, unknown=True) for match in gpu.label_matches)


def _has_type(scalable_pool: ScalableNodePool, gpu: GPUType) -> bool:
    """Return whether a Karpenter NodePool declares labels of a GPU type.

    The result is False for MIG slices and shared GPUs, which Karpenter cannot predict.
    """
    return gpu.resource in PREDICTABLE_DEVICES and any(
        match and _may_match_labels(scalable_pool.labels, match, unknown=False) for match in gpu.label_matches
    )


def _may_match_labels(labels: PossibleLabels, match: PossibleLabels, *, unknown: bool) -> bool:
    for key, values in match.items():
        possible = labels.get(key)
        if possible is None:
            if not unknown:
                return False
        elif not any(value in values for value in possible) if values else possible:
            return False
    return True


def _build_scale_up_pool(gpu: GPUType, scale_up: ScaleUp, *, nodes: Iterable[Node]) -> ScalableNodePool:
    of_type = [node for node in nodes if node.capacity.get(gpu.resource) and gpu.matches_labels(node.labels)]
    # New nodes resemble the existing nodes of this node pool. A node of the type that has more or fewer GPUs than the
    # setting gpus_per_node belongs to another node pool, so it is no example.
    examples = tuple(node for node in of_type if node.capacity[gpu.resource] == scale_up.gpus_per_node)
    names = {name for node in examples for name in node.allocatable}
    allocatable = {name: max(node.allocatable.get(name, 0) for node in examples) for name in names}
    return ScalableNodePool(
        name=gpu.display_name,
        minutes=scale_up.minutes,
        node_allocatable={**allocatable, gpu.resource: scale_up.gpus_per_node},
        max_new_nodes=max(0, scale_up.max_nodes - len(of_type)),
        labels=gpu.match,
        examples=examples,
    )


def _has_room(free: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    if free.get("pods", inf) < 1:
        return False
    return all(free.get(name, 0 if "/" in name else inf) >= number for name, number in requests.items() if number)


def _compute_share(pod: Pod, total: Mapping[str, int]) -> float:
    return max((number / total[name] for name, number in pod.requests.items() if total.get(name)), default=0)


def _accepts_like(example: Node, constraints: PodConstraints) -> bool:
    return (
        not is_reserved_for_others(example, constraints.tolerations)
        and matches_node_affinity(example, constraints)
        and all(matches_any_term(example, terms) for terms in constraints.volume_terms)
    )
