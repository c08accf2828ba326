"""What an autoscaler would add: plain values, whoever knows them, and whether a pod would run on such a node.

No API of Kubernetes tells what a node that does not exist yet will be. The admin's ``scale_up`` does for a GPU type;
:mod:`gpuspawner.core.autoscaling.karpenter` puts what Karpenter publishes into the same :class:`ScalableNodePool`.

What an autoscaler that picks a machine to fit the pods that wait may pick from, and how much of that is left.

Karpenter's NodePools are of this kind: which machines a cloud has is not written in them, only what they must be like.

What autoscalers leave on the nodes they made: that there may be more, and whether those may be larger.

A label says that a pool exists, not that it grows; but a pool that may be there without any node is reason enough not
to call anything impossible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from gpuspawner.core.catalog.model import GPUType, ScaleUp
from gpuspawner.core.cluster.model import (
    MachineConstraints,
    Node,
    Pod,
    PodConstraints,
    PossibleLabels,
    ScalableNodePool,
)
from gpuspawner.core.cluster.node_affinity import (
    guarantees_node_affinity,
    matches_node_affinity,
    may_match_node_affinity,
)
from gpuspawner.core.cluster.node_table import NodeGrouping, NodeTable
from gpuspawner.core.cluster.selectors import matches_any_term
from gpuspawner.core.cluster.taints import is_reserved_for_others, tolerates_taints
from gpuspawner.core.scheduling.results import Answer

NODE_COUNT = "nodes"
"""The name under which Karpenter limits the number of nodes (https://karpenter.sh/docs/concepts/nodepools/#speclimits)."""


def may_fit_machine(machines: MachineConstraints, requests: Mapping[str, int]) -> bool:
    """Tell whether a machine may be large enough, and within the limits if nothing else were there.

    Limits are compared with what the pod asks for: how much of it Karpenter counts for a machine is only nearly known
    (memory less what its provider takes off, ``vmMemoryOverheadPercent``).
    """
    for name, number in requests.items():
        sizes = machines.sizes.get(name)
        if sizes is not None and number > (sizes[-1] if sizes else 0):
            return False
    return all(_get_wanted(requests, name) <= limit for name, limit in machines.limits.items())


def has_capacity_left(machines: MachineConstraints, pod_requests: Iterable[Mapping[str, int]]) -> bool:
    """Tell whether the limits leave room for some pods' requests, each on a machine of its own.

    The smallest machines that would do are counted. Karpenter takes larger ones where it has no smaller, so this is
    sure only where the sizes are known.
    """
    left = dict(machines.remaining)
    for requests in pod_requests:
        for name in left:
            left[name] -= _compute_smallest_size(machines, requests, name=name)
        if any(number < 0 for number in left.values()):
            return False
    return True


def find_largest_size(machines: MachineConstraints, name: str) -> int | None:
    """Return how much of a resource one machine has at most, None when not known."""
    known = [machines.limits[name]] if name in machines.limits else []
    sizes = machines.sizes.get(name)
    if sizes is not None:
        known.append(sizes[-1] if sizes else 0)
    return min(known, default=None)


def _compute_smallest_size(machines: MachineConstraints, requests: Mapping[str, int], *, name: str) -> int:
    """Return how much of a limited resource the smallest machine for a pod takes."""
    number = _get_wanted(requests, name)
    sizes = machines.sizes.get(name, ())
    at = bisect_left(sizes, number)
    return sizes[at] if at < len(sizes) else number


def _get_wanted(requests: Mapping[str, int], name: str) -> int:
    """Return how much of a limited resource a pod takes, on a machine of its own."""
    return 1 if name == NODE_COUNT else requests.get(name, 0)


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


_ANY_SIZE_LABELS = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
"""Karpenter and EKS Auto Mode choose a machine for the pods that wait (https://karpenter.sh/docs/concepts/nodepools/)."""

_FIXED_SIZE_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
)
"""Pools of GKE, EKS, eksctl and AKS, whose nodes are all alike; one may have no node right now."""

_AUTOSCALER_GROUPING = NodeGrouping(presence=(*_ANY_SIZE_LABELS, *_FIXED_SIZE_LABELS))


class AutoscalerTraces(NamedTuple):
    """What may be added to a cluster, as its nodes tell.

    :param any_size: nodes of any size.
    :param fixed_size: nodes of pools of which no node may be there now.
    """

    any_size: bool
    fixed_size: bool


def find_autoscaler_traces(table: NodeTable) -> AutoscalerTraces:
    """Return what autoscalers left on the nodes of a cluster."""
    examples = [pool.example.labels for pool in table.group_nodes(_AUTOSCALER_GROUPING)]
    return AutoscalerTraces(
        any_size=any(key in labels for labels in examples for key in _ANY_SIZE_LABELS),
        fixed_size=any(key in labels for labels in examples for key in _FIXED_SIZE_LABELS),
    )
