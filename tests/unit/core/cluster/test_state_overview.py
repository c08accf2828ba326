from __future__ import annotations

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.cluster.state import Inventory, KnownOccupancy, Occupancy, get_occupancy

NODES = (Node(name="n", allocatable={"cpu": 8000}),)
PODS = (Pod(name="p", namespace="s", node="n", requests={"cpu": 1000}),)


def test_nothing_is_known_without_nodes():
    assert get_occupancy(Inventory()) is None


def test_an_occupancy_kept_up_to_date_is_taken_as_it_is():
    occupancy = Occupancy.build(NODES, PODS)
    assert get_occupancy(Inventory(nodes=NODES, occupancy=occupancy)) == KnownOccupancy(occupancy, pods_known=True)


def test_nodes_alone_look_empty_and_are_said_not_to_be_known():
    found = get_occupancy(Inventory(nodes=NODES))
    assert (found.pods_known, found.occupancy.get_free("n")) == (False, {"cpu": 8000})


def test_nodes_that_were_counted_without_pods_are_not_counted_again():
    empty = Occupancy.build(NODES, ())
    known = get_occupancy(Inventory(nodes=NODES, empty_occupancy=empty))
    assert known == KnownOccupancy(empty, pods_known=False)
