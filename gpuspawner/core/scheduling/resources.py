"""What a pod takes of a node's resources, and what a node lacks for it.

As kube-scheduler's NodeResourcesFit decides: of each resource as much as was asked for must not be requested yet, and a
node holds only so many pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import PODS
from gpuspawner.core.scheduling.results import Obstacle, Reason
from gpuspawner.core.text.i18n import gettext_lazy

ResourceNeeds = tuple[tuple[str, int], ...]
"""Resource name and how much of it, more than nothing."""

UNKNOWN_AMOUNTS = Obstacle(
    reason=Reason.UNDECIDED, detail=gettext_lazy("devices of which nobody can tell how many are free")
)


def compute_needs(pod: Pod) -> ResourceNeeds:
    """Return what a pod takes: one of the pods a node may hold, and what it requests.

    What is not asked for is not looked at: a node that has promised too much memory takes a pod that requests none.
    """
    requested = sorted((name, number) for name, number in pod.requests.items() if number > 0 and name != PODS)
    return ((PODS, 1), *requested)


def find_shortages(needs: ResourceNeeds, node: Node, *, requested: Mapping[str, int]) -> tuple[Obstacle, ...]:
    """Return an obstacle for each resource of which a node has too little left, or nobody can tell whether it has."""
    return (
        *find_unknown_amounts(needs, node),
        *(
            make_shortage(name)
            for name, number in select_countable(needs, node)
            if node.allocatable.get(name, 0) - requested.get(name, 0) < number
        ),
    )


def select_countable(needs: ResourceNeeds, node: Node) -> ResourceNeeds:
    """Return what is needed of resources of which a node's amounts are known."""
    return tuple(each for each in needs if each[0] not in node.uncounted) if node.uncounted else needs


def find_unknown_amounts(needs: ResourceNeeds, node: Node) -> tuple[Obstacle, ...]:
    """Return the obstacle that resources are of which nobody can tell how many a node has."""
    return () if select_countable(needs, node) == needs else (UNKNOWN_AMOUNTS,)


def make_shortage(resource: str) -> Obstacle:
    """Return the obstacle that too little of a resource is."""
    if resource == PODS:
        return Obstacle(reason=Reason.TOO_MANY_PODS)
    return Obstacle(reason=Reason.INSUFFICIENT, detail=resource)
