"""What an autoscaler would add: plain values, whoever knows them, and whether a pod would run on such a node.

No API of Kubernetes tells what a node that does not exist yet will be. The admin's ``scale_up`` does for a GPU type;
:mod:`gpuspawner.core.autoscaling.nodepools` puts what Karpenter publishes into the same :class:`ScalableNodePool`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from gpuspawner.core.autoscaling.machines import has_capacity_left, may_fit_machine
from gpuspawner.core.catalog.catalogue import GPUType, ScaleUp
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, PossibleLabels, ScalableNodePool
from gpuspawner.core.cluster.node_choice import guarantees_node_affinity, matches_node_affinity, may_match_node_affinity
from gpuspawner.core.cluster.node_states import is_reserved_for_others
from gpuspawner.core.cluster.node_terms import matches_any_term
from gpuspawner.core.cluster.tolerations import tolerates_taints
from gpuspawner.core.scheduling.obstacles import Answer

PREDICTABLE_DEVICES = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "habana.ai/gaudi"}
)
"""Devices that Karpenter knows a machine to have before there is a node
(https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources); slices and shares it learns of later."""
_ANY_COUNT = range(1, 2**31)


def build_scale_up_pools(gpu: GPUType, nodes: Iterable[Node]) -> tuple[ScalableNodePool, ...]:
    """Return what the admin's ``scale_up`` of a type says may be added, also when nothing more may be.

    A node counts against ``max_nodes`` once it has the type's GPUs. While it starts it may have the labels, but not yet
    the resource: it is then taken for one to be added, which it is for whoever waits.

    :param nodes: those of the type, or all.
    """
    own = tuple(nodes)
    types = gpu.members or (gpu,)
    return tuple(_build_scale_up_pool(each, each.scale_up, nodes=own) for each in types if each.scale_up is not None)


def check_new_node(scalable_pool: ScalableNodePool, pod: Pod) -> Answer:
    """Return whether a pod would run on a node that a pool grows by, as far as that can be known.

    UNKNOWN is for what depends on what only an existing node has: its zone, labels and taints that nobody told of, the
    pods near it. YES for machines that are picked means that nothing is against it: whether there is one that is large
    enough is then known to the autoscaler alone.
    """
    constraints, machines = pod.constraints, scalable_pool.machines
    if _is_ruled_out(scalable_pool, pod):
        return Answer.NO
    if constraints.undecided or constraints.unread_claims or constraints.affinity or constraints.spread_constraints:
        return Answer.UNKNOWN
    if machines is not None:
        has_devices = all(name in machines.sizes for name, number in pod.requests.items() if number and "/" in name)
        is_sure = machines.is_reliable and has_devices and guarantees_node_affinity(scalable_pool.labels, constraints)
        return Answer.YES if is_sure else Answer.UNKNOWN
    if not scalable_pool.examples:
        return Answer.UNKNOWN if constraints.volume_terms else Answer.YES
    return Answer.YES if any(_accepts_like(node, constraints) for node in scalable_pool.examples) else Answer.UNKNOWN


def has_room_after(scalable_pool: ScalableNodePool, pod: Pod, *, ahead: Sequence[Pod]) -> bool:
    """Tell whether the nodes a pool may grow by have room for a pod, when those ahead of it get theirs there first.

    Pods are put on one new node after the other, the largest first; that wastes a little, so a yes can be relied on.
    """
    takers = (other for other in ahead if not _is_ruled_out(scalable_pool, other))
    if scalable_pool.machines is not None:
        return has_capacity_left(scalable_pool.machines, (each.requests for each in (*takers, pod)))
    if scalable_pool.max_new_nodes is None:
        return True
    nodes, room = 1, dict(scalable_pool.node_allocatable)
    for each in (
        *sorted(takers, key=lambda other: _compute_share(other, scalable_pool.node_allocatable), reverse=True),
        pod,
    ):
        if not _has_room(room, each.requests):
            nodes, room = nodes + 1, dict(scalable_pool.node_allocatable)
            if nodes > scalable_pool.max_new_nodes:
                return False
        for name in room:
            room[name] -= 1 if name == "pods" else each.requests.get(name, 0)
    return nodes <= scalable_pool.max_new_nodes


def may_match_pool(scalable_pool: ScalableNodePool, constraints: PodConstraints) -> bool:
    """Tell whether a pod with these demands may be meant for the nodes of a pool, however large they are."""
    machines = scalable_pool.machines
    if machines is not None and not tolerates_taints(Node(name="", taints=machines.taints), constraints.tolerations):
        return False
    return may_match_node_affinity(scalable_pool.labels, constraints)


def add_gpu_sizes(scalable_pool: ScalableNodePool, gpu: GPUType | None) -> ScalableNodePool:
    """Return a growth with the GPUs of a type, where its machines have the labels that go with the type."""
    machines = scalable_pool.machines
    if machines is None or gpu is None or gpu.resource not in PREDICTABLE_DEVICES or gpu.resource in machines.sizes:
        return scalable_pool
    if not any(match and _labels_may_match(scalable_pool.labels, match, unknown=False) for match in gpu.label_matches):
        return scalable_pool
    return replace(scalable_pool, machines=replace(machines, sizes={**machines.sizes, gpu.resource: _ANY_COUNT}))


def may_add_gpu_type(scalable_pool: ScalableNodePool, gpu: GPUType) -> bool:
    """Tell whether a pool may add nodes with GPUs of a type, as far as it is known what they are like."""
    machines = scalable_pool.machines
    if machines is None or not may_fit_machine(machines, {gpu.resource: 1}):
        return False
    return any(_labels_may_match(scalable_pool.labels, match, unknown=True) for match in gpu.label_matches)


def _labels_may_match(labels: PossibleLabels, match: PossibleLabels, *, unknown: bool) -> bool:
    """Tell whether a new node's labels may be what a type's match asks for.

    :param unknown: what to answer for a label of which nothing is known.
    """
    for key, values in match.items():
        own = labels.get(key)
        if own is None:
            if not unknown:
                return False
        elif not any(value in values for value in own) if values else own:
            return False
    return True


def _build_scale_up_pool(gpu: GPUType, scale_up: ScaleUp, *, nodes: Iterable[Node]) -> ScalableNodePool:
    own = [node for node in nodes if node.capacity.get(gpu.resource) and gpu.matches_labels(node.labels)]
    # A type may be on nodes of several sizes; those with another number of GPUs say nothing of this pool's.
    examples = tuple(node for node in own if node.capacity[gpu.resource] == scale_up.gpus_per_node)
    names = {name for node in examples for name in node.allocatable}
    shape = {name: max(node.allocatable.get(name, 0) for node in examples) for name in names}
    return ScalableNodePool(
        name=gpu.display_name,
        minutes=scale_up.minutes,
        node_allocatable={**shape, gpu.resource: scale_up.gpus_per_node},
        max_new_nodes=max(0, scale_up.max_nodes - len(own)),
        labels=gpu.match,
        examples=examples,
    )


def _is_ruled_out(scalable_pool: ScalableNodePool, pod: Pod) -> bool:
    """Tell whether a pod can run on no node that a pool grows by; cheap, as it is asked of all who wait."""
    if scalable_pool.max_new_nodes == 0:
        return True
    machines = scalable_pool.machines
    holds = (
        _has_room(scalable_pool.node_allocatable, pod.requests)
        if machines is None
        else may_fit_machine(machines, pod.requests)
    )
    return not holds or not may_match_pool(scalable_pool, pod.constraints)


def _has_room(shape: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    if shape.get("pods", inf) < 1:
        return False
    return all(shape.get(name, 0 if "/" in name else inf) >= number for name, number in requests.items() if number)


def _compute_share(pod: Pod, shape: Mapping[str, int]) -> float:
    """Return the largest part of a node that a pod takes of anything."""
    return max((number / shape[name] for name, number in pod.requests.items() if shape.get(name)), default=0)


def _accepts_like(example: Node, constraints: PodConstraints) -> bool:
    """Tell whether a node like an existing one would be admitted; that one may be busy or out of service."""
    return (
        not is_reserved_for_others(example, constraints.tolerations)
        and matches_node_affinity(example, constraints)
        and all(matches_any_term(example, terms) for terms in constraints.volume_terms)
    )
