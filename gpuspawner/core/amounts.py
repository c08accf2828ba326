"""What a pod takes of a node's resources, and what a node lacks for it.

As kube-scheduler's NodeResourcesFit decides: of each resource as much as was asked for must not be requested yet, and a
node holds only so many pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.inventory import Node, Pod
from gpuspawner.core.obstacles import Obstacle, Reason
from gpuspawner.core.occupancy import PODS

Needs = tuple[tuple[str, int], ...]
"""Resource name and how much of it, more than nothing."""


def needs(pod: Pod) -> Needs:
    """Return what a pod takes: one of the pods a node may hold, and what it requests.

    What is not asked for is not looked at: a node that has promised too much memory takes a pod that requests none.
    """
    requested = sorted((name, number) for name, number in pod.requests.items() if number > 0 and name != PODS)
    return ((PODS, 1), *requested)


def lacking(wanted: Needs, node: Node, *, requested: Mapping[str, int]) -> tuple[Obstacle, ...]:
    """Return an obstacle for each resource of which a node has too little left."""
    return tuple(
        shortage(name) for name, number in wanted if node.allocatable.get(name, 0) - requested.get(name, 0) < number
    )


def shortage(resource: str) -> Obstacle:
    """Return the obstacle that too little of a resource is."""
    if resource == PODS:
        return Obstacle(reason=Reason.TOO_MANY_PODS)
    return Obstacle(reason=Reason.INSUFFICIENT, detail=resource)
