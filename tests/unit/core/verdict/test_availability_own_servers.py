"""GPUs of each type that the hub's own servers hold."""

from __future__ import annotations

from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.verdict.availability import count_held_units
from tests.unit.core.verdict.test_availability import A100, SLICE, T4, node, pod

NODES = (node("a", 4), node("b", 8, "A100"))


def test_units_count_where_the_nodes_are_of_the_type():
    pods = (pod("1", "a", 3), pod("2", "b", 2), pod("3", "b", 1), pod("4", "gone", 1), pod("5", None, 4))
    assert count_held_units([T4, A100, SLICE], Inventory(nodes=NODES), pods=pods) == (3, 3, 0)


def test_while_nodes_are_unknown_so_is_what_is_held():
    assert count_held_units([T4, A100], Inventory(), pods=(pod("1", "a", 3),)) == (None, None)
