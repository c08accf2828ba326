from __future__ import annotations

import pytest

from gpuspawner.core.cluster.model import Node, Taint
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.discover import find_largest_node

GIB = 1 << 30


def test_the_largest_node_is_the_one_with_the_most_memory():
    nodes = (
        Node(name="a", allocatable={"cpu": 64_000, "memory": 32 * GIB}),
        Node(name="b", allocatable={"cpu": 8000, "memory": 64 * GIB}),
    )
    assert find_largest_node(Inventory(nodes=nodes)) == (8000, 64 * GIB)


@pytest.mark.parametrize("nodes", [None, ()])
def test_without_nodes_there_is_no_largest_one(nodes: tuple[Node, ...] | None):
    assert find_largest_node(Inventory(nodes=nodes)) is None


def test_the_control_plane_is_no_node_for_servers():
    taint = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    control = Node(name="control", taints=(taint,), allocatable={"cpu": 64_000, "memory": 256 * GIB})
    other = Node(name="a", allocatable={"cpu": 8000, "memory": 32 * GIB})
    assert find_largest_node(Inventory(nodes=(control, other))) == (8000, 32 * GIB)
