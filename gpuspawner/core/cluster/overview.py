"""An inventory as an occupancy, whatever of it could be read."""

from __future__ import annotations

from typing import NamedTuple

from gpuspawner.core.cluster.occupancy import Inventory, Occupancy


class KnownOccupancy(NamedTuple):
    """Nodes and their pods.

    :param pods_known: the pods of all namespaces are; otherwise nodes only look empty.
    """

    occupancy: Occupancy
    pods_known: bool


def get_occupancy(inventory: Inventory) -> KnownOccupancy | None:
    """Return what an inventory knows, None when it does not even know the nodes."""
    if inventory.occupancy is not None:
        return KnownOccupancy(inventory.occupancy, pods_known=True)
    if inventory.nodes is None:
        return None
    return KnownOccupancy(_LAST_SNAPSHOT.get_occupancy(inventory), pods_known=inventory.pods is not None)


class _LastSnapshot:
    """Remembers the last snapshot that was counted: everybody asks about the same one until the next is read."""

    def __init__(self) -> None:
        self._inventory = Inventory()
        self._occupancy = Occupancy()

    def get_occupancy(self, inventory: Inventory) -> Occupancy:
        """Return an occupancy of a snapshot's nodes and pods."""
        known = self._inventory
        # Comparing thousands of nodes takes as long as counting them, so only the very same ones are known.
        if inventory.nodes is not known.nodes or inventory.pods is not known.pods:
            self._inventory = inventory
            self._occupancy = Occupancy.build(inventory.nodes or (), inventory.pods or ())
        return self._occupancy


_LAST_SNAPSHOT = _LastSnapshot()
