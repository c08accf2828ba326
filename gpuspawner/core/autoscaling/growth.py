"""What an autoscaler would add: plain values, whoever knows them, and whether a pod would run on such a node.

No API of Kubernetes tells what a node that does not exist yet will be. The admin's ``scale_up`` does for a GPU type;
:mod:`gpuspawner.core.autoscaling.nodepools` puts what Karpenter publishes into the same :class:`Growth`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from gpuspawner.core.autoscaling.machines import has_left, may_hold
from gpuspawner.core.catalog.catalogue import GPUType, ScaleUp
from gpuspawner.core.cluster.model import Demands, Growth, Labels, Node, Pod
from gpuspawner.core.cluster.node_choice import admits, may_admit, will_admit
from gpuspawner.core.cluster.node_states import is_reserved
from gpuspawner.core.cluster.node_terms import matches_any
from gpuspawner.core.cluster.tolerations import tolerates
from gpuspawner.core.scheduling.obstacles import Answer

KNOWN_BEFOREHAND = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "habana.ai/gaudi"}
)
"""Devices that Karpenter knows a machine to have before there is a node
(https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources); slices and shares it learns of later."""
_ANY_NUMBER = range(1, 2**31)


def growths(gpu: GPUType, nodes: Iterable[Node]) -> tuple[Growth, ...]:
    """Return what the admin's ``scale_up`` of a type says may be added, also when nothing more may be.

    A node counts against ``max_nodes`` once it has the type's GPUs. While it starts it may have the labels, but not yet
    the resource: it is then taken for one to be added, which it is for whoever waits.

    :param nodes: those of the type, or all.
    """
    own = tuple(nodes)
    types = gpu.members or (gpu,)
    return tuple(_growth(each, each.scale_up, nodes=own) for each in types if each.scale_up is not None)


def would_take(growth: Growth, pod: Pod) -> Answer:
    """Return whether a pod would run on a node that a pool grows by, as far as that can be known.

    UNKNOWN is for what depends on what only an existing node has: its zone, labels and taints that nobody told of, the
    pods near it. YES for machines that are picked means that nothing is against it: whether there is one that is large
    enough is then known to the autoscaler alone.
    """
    demands, machines = pod.demands, growth.machines
    if _is_ruled_out(growth, pod):
        return Answer.NO
    if demands.undecided or demands.claims or demands.affinity or demands.spread:
        return Answer.UNKNOWN
    if machines is not None:
        has_devices = all(name in machines.sizes for name, number in pod.requests.items() if number and "/" in name)
        is_sure = machines.is_clear and has_devices and will_admit(growth.labels, demands)
        return Answer.YES if is_sure else Answer.UNKNOWN
    if not growth.examples:
        return Answer.UNKNOWN if demands.volume_terms else Answer.YES
    return Answer.YES if any(_would_admit(node, demands) for node in growth.examples) else Answer.UNKNOWN


def has_room_after(growth: Growth, pod: Pod, *, ahead: Sequence[Pod]) -> bool:
    """Tell whether the nodes a pool may grow by have room for a pod, when those ahead of it get theirs there first.

    Pods are put on one new node after the other, the largest first; that wastes a little, so a yes can be relied on.
    """
    takers = (other for other in ahead if not _is_ruled_out(growth, other))
    if growth.machines is not None:
        return has_left(growth.machines, (each.requests for each in (*takers, pod)))
    if growth.nodes_left is None:
        return True
    nodes, room = 1, dict(growth.shape)
    for each in (*sorted(takers, key=lambda other: _size(other, growth.shape), reverse=True), pod):
        if not _holds(room, each.requests):
            nodes, room = nodes + 1, dict(growth.shape)
            if nodes > growth.nodes_left:
                return False
        for name in room:
            room[name] -= 1 if name == "pods" else each.requests.get(name, 0)
    return nodes <= growth.nodes_left


def may_be_for(growth: Growth, demands: Demands) -> bool:
    """Tell whether a pod with these demands may be meant for the nodes of a pool, however large they are."""
    machines = growth.machines
    if machines is not None and not tolerates(Node(name="", taints=machines.taints), demands.tolerations):
        return False
    return may_admit(growth.labels, demands)


def with_devices(growth: Growth, gpu: GPUType | None) -> Growth:
    """Return a growth with the GPUs of a type, where its machines have the labels that go with the type."""
    machines = growth.machines
    if machines is None or gpu is None or gpu.resource not in KNOWN_BEFOREHAND or gpu.resource in machines.sizes:
        return growth
    if not any(match and _matches(growth.labels, match, unknown=False) for match in gpu.matches):
        return growth
    return replace(growth, machines=replace(machines, sizes={**machines.sizes, gpu.resource: _ANY_NUMBER}))


def may_bring(growth: Growth, gpu: GPUType) -> bool:
    """Tell whether a pool may add nodes with GPUs of a type, as far as it is known what they are like."""
    machines = growth.machines
    if machines is None or not may_hold(machines, {gpu.resource: 1}):
        return False
    return any(_matches(growth.labels, match, unknown=True) for match in gpu.matches)


def _matches(labels: Labels, match: Labels, *, unknown: bool) -> bool:
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


def _growth(gpu: GPUType, scale_up: ScaleUp, *, nodes: Iterable[Node]) -> Growth:
    own = [node for node in nodes if node.capacity.get(gpu.resource) and gpu.is_on(node.labels)]
    # A type may be on nodes of several sizes; those with another number of GPUs say nothing of this pool's.
    examples = tuple(node for node in own if node.capacity[gpu.resource] == scale_up.gpus_per_node)
    names = {name for node in examples for name in node.allocatable}
    shape = {name: max(node.allocatable.get(name, 0) for node in examples) for name in names}
    return Growth(
        pool=gpu.display_name,
        minutes=scale_up.minutes,
        shape={**shape, gpu.resource: scale_up.gpus_per_node},
        nodes_left=max(0, scale_up.max_nodes - len(own)),
        labels=gpu.match,
        examples=examples,
    )


def _is_ruled_out(growth: Growth, pod: Pod) -> bool:
    """Tell whether a pod can run on no node that a pool grows by; cheap, as it is asked of all who wait."""
    if growth.nodes_left == 0:
        return True
    machines = growth.machines
    holds = _holds(growth.shape, pod.requests) if machines is None else may_hold(machines, pod.requests)
    return not holds or not may_be_for(growth, pod.demands)


def _holds(shape: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    if shape.get("pods", inf) < 1:
        return False
    return all(shape.get(name, 0 if "/" in name else inf) >= number for name, number in requests.items() if number)


def _size(pod: Pod, shape: Mapping[str, int]) -> float:
    """Return the largest part of a node that a pod takes of anything."""
    return max((number / shape[name] for name, number in pod.requests.items() if shape.get(name)), default=0)


def _would_admit(example: Node, demands: Demands) -> bool:
    """Tell whether a node like an existing one would be admitted; that one may be busy or out of service."""
    return (
        not is_reserved(example, demands.tolerations)
        and admits(example, demands)
        and all(matches_any(example, terms) for terms in demands.volume_terms)
    )
