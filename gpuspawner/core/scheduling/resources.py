"""Compare a pod's requests with a node's free resources and its maximum number of pods (NodeResourcesFit)."""

from __future__ import annotations

from collections.abc import Mapping

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import PODS
from gpuspawner.core.scheduling.results import Obstacle, Reason
from gpuspawner.core.text.i18n import gettext_lazy

ResourceNeeds = tuple[tuple[str, int], ...]
"""(resource, amount) pairs with amounts above 0, in the units of :class:`~gpuspawner.core.cluster.model.Node`."""

UNKNOWN_AMOUNTS = Obstacle(
    reason=Reason.UNDECIDED, detail=gettext_lazy("devices of which nobody can tell how many are free")
)


def compute_needs(pod: Pod) -> ResourceNeeds:
    """Return the amounts that a node must have free: the pod's requests, and 1 of ``pods``.

    Resources that the pod does not request are left out: a node with overcommitted memory accepts a pod that requests
    no memory.
    """
    requested = sorted((name, number) for name, number in pod.requests.items() if number > 0 and name != PODS)
    return ((PODS, 1), *requested)


def find_shortages(needs: ResourceNeeds, node: Node, *, requested: Mapping[str, int]) -> tuple[Obstacle, ...]:
    """Return an obstacle for each resource of which a node has too little free, and one for unknown amounts."""
    return (
        *find_unknown_amounts(needs, node),
        *(
            make_shortage(name)
            for name, number in select_countable(needs, node)
            if node.allocatable.get(name, 0) - requested.get(name, 0) < number
        ),
    )


def select_countable(needs: ResourceNeeds, node: Node) -> ResourceNeeds:
    """Return the needs without resources whose amount on the node is unknown."""
    return tuple(each for each in needs if each[0] not in node.uncounted) if node.uncounted else needs


def find_unknown_amounts(needs: ResourceNeeds, node: Node) -> tuple[Obstacle, ...]:
    """Return :data:`UNKNOWN_AMOUNTS` if the amount of a needed resource on the node is unknown."""
    return () if select_countable(needs, node) == needs else (UNKNOWN_AMOUNTS,)


def make_shortage(resource: str) -> Obstacle:
    """Return the obstacle for a resource of which a node has too little free."""
    if resource == PODS:
        return Obstacle(reason=Reason.TOO_MANY_PODS)
    return Obstacle(reason=Reason.INSUFFICIENT, detail=resource)
