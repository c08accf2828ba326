"""What the hub's own servers hold: all that is known of what is taken while the pods of others cannot be read."""

from __future__ import annotations

from collections.abc import Iterable

from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.occupancy import Inventory
from gpuspawner.core.cluster.overview import get_occupancy


def count_held_units(gpus: Iterable[GPUType], inventory: Inventory, *, pods: Iterable[Pod]) -> tuple[int | None, ...]:
    """Return how many units of each GPU type some pods hold, None while nodes are not known.

    :param pods: not finished; those without a node hold nothing yet.
    """
    wanted = tuple(gpus)
    known = get_occupancy(inventory)
    if known is None:
        return (None,) * len(wanted)
    total = [0] * len(wanted)
    for pod in pods:
        node = None if pod.node is None else known.occupancy.get_node(pod.node)
        if node is not None:
            for index, gpu in enumerate(wanted):
                if number := pod.requests.get(gpu.resource):
                    total[index] += number if gpu.matches_labels(node.labels) else 0
    return tuple(total)
