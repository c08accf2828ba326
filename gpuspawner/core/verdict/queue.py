"""Who waits for the same as a pod, and would be served before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints
from gpuspawner.core.cluster.node_choice import matches_node_affinity, may_match_node_affinity
from gpuspawner.core.cluster.tolerations import tolerates_taints

_MAX_COMPARED_CHOICES = 64
"""Different demands of pods that wait which are compared with each node: anybody may think of thousands."""


def find_pods_ahead(
    pod: Pod, waiting: Iterable[Pod], *, nodes: Sequence[Node], gpu: GPUType | None = None
) -> tuple[Pod, ...]:
    """Return pods that wait for the same as a pod and come before it, in no order.

    They want one of its devices (or, like itself, none), and a node that would do for it. kube-scheduler takes those
    of higher priority first, then those that have waited longer (queuesort/priority_sort.go); a pod that does not exist
    yet comes after all of its priority.

    :param nodes: those that would do for the pod.
    :param gpu: the type that all of them are of; it says what a node will be like while there is none.
    """
    devices = _list_devices(pod)
    shared: dict[tuple[int, ...], bool] = {}
    found = []
    for other in waiting:
        if (other.namespace, other.name) == (pod.namespace, pod.name) or not _is_before(other, pod):
            continue
        theirs = _list_devices(other)
        if devices.isdisjoint(theirs) if devices else theirs:
            continue
        key = (*other.constraints.node_affinity_key, id(other.constraints.tolerations))
        if key not in shared:
            known = nodes if len(shared) < _MAX_COMPARED_CHOICES else ()
            shared[key] = _share_a_node(pod.constraints, other.constraints, nodes=known, gpu=gpu)
        if shared[key]:
            found.append(other)
    return tuple(found)


def _list_devices(pod: Pod) -> frozenset[str]:
    """Return the extended resources that a pod asks for: what nodes have few of, and most have none."""
    return frozenset(name for name, number in pod.requests.items() if number and "/" in name)


def _is_before(other: Pod, pod: Pod) -> bool:
    if other.terminating or other.constraints.is_gated or other.priority < pod.priority:
        return False
    return other.priority > pod.priority or not pod.created or other.created <= pod.created


def _share_a_node(own: PodConstraints, other: PodConstraints, *, nodes: Sequence[Node], gpu: GPUType | None) -> bool:
    if own is other or (own.node_selector == other.node_selector and own.node_terms == other.node_terms):
        return True
    # Said at once of nearly all who want another type, and all that can be said while there is no node.
    if gpu is not None and not any(may_match_node_affinity(match, other) for match in gpu.label_matches):
        return False
    if not nodes:
        return gpu is not None
    return any(matches_node_affinity(node, other) and tolerates_taints(node, other.tolerations) for node in nodes)
