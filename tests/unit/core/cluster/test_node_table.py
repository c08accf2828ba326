from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.node_table import EquivalentNodes, NodeGrouping, NodeTable

REQUESTED = Counter({("a", "cpu"): 300})
BY_ZONE = NodeGrouping(values=("zone",))


def node(name: str, zone: str = "x", cpu: int = 1000) -> Node:
    return Node(name=name, labels={"zone": zone}, allocatable={"cpu": cpu})


def table(*nodes: Node) -> NodeTable:
    made = NodeTable(lambda name, resource, floor: REQUESTED[name, resource])
    for each in nodes:
        made.put(each)
    return made


def names(found: NodeTable, pool: EquivalentNodes) -> set[str]:
    return {found.get_by_row(row).name for row in pool.rows}


def pools(found: NodeTable, layout: NodeGrouping) -> list[set[str]]:
    return sorted((names(found, pool) for pool in found.group_nodes(layout)), key=sorted)


def amounts(found: NodeTable, column: list[int]) -> dict[str, int]:
    (pool,) = found.group_nodes(NodeGrouping())
    return dict(zip((found.get_by_row(row).name for row in pool.rows), pool.pick(column), strict=True))


def test_nodes_alike_are_one_pool():
    assert pools(table(node("a"), node("b", "y"), node("c")), BY_ZONE) == [{"a", "c"}, {"b"}]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (NodeGrouping(), [{"a", "b"}]),
        (NodeGrouping(values=("missing",)), [{"a", "b"}]),
        (NodeGrouping(presence=("zone",)), [{"a", "b"}]),
        (NodeGrouping(by_name=True), [{"a"}, {"b"}]),
    ],
)
def test_only_what_a_layout_names_tells_pools_apart(layout: NodeGrouping, expected: list[set[str]]):
    assert pools(table(node("a"), node("b", "y")), layout) == expected


def test_pools_are_kept_up_to_date():
    found = table(node("a"), node("b"))
    assert pools(found, BY_ZONE) == [{"a", "b"}]
    found.put(node("b", "y"))
    found.put(node("c"))
    assert pools(found, BY_ZONE) == [{"a", "c"}, {"b"}]
    found.remove("a")
    found.remove("b")
    assert pools(found, BY_ZONE) == [{"c"}]


def test_free_amounts_are_those_not_requested():
    found = table(node("a"), node("b"))
    assert amounts(found, found.get_free_column("cpu")) == {"a": 700, "b": 1000}
    found.reserve("b", {"cpu": 1100}, priority=0)
    found.reserve("unknown", {"cpu": 1}, priority=0)
    assert amounts(found, found.get_free_column("cpu")) == {"a": 700, "b": -100}
    found.reserve("b", {"cpu": 1100}, sign=-1, priority=0)
    assert amounts(found, found.get_free_column("cpu")) == {"a": 700, "b": 1000}


def test_columns_follow_changed_nodes():
    found = table(node("a"))
    assert amounts(found, found.get_free_column("cpu")) == {"a": 700}
    assert amounts(found, found.get_allocatable_column("cpu")) == {"a": 1000}
    found.put(node("a", cpu=2000))
    found.put(node("b"))
    assert amounts(found, found.get_free_column("cpu")) == {"a": 1700, "b": 1000}
    assert amounts(found, found.get_allocatable_column("cpu")) == {"a": 2000, "b": 1000}


def test_no_node_has_an_unknown_resource():
    found = table(node("a"))
    assert amounts(found, found.get_free_column("example.com/card")) == {"a": 0}


def test_a_pool_picks_values_of_the_nodes_it_has():
    found = table(node("a", cpu=1), node("b", cpu=2), node("c", cpu=3))
    (pool,) = found.group_nodes(NodeGrouping())
    assert pool.pick(found.get_allocatable_column("cpu")) == (1, 2, 3)
    found.remove("b")
    assert pool.pick(found.get_allocatable_column("cpu")) == (1, 3)
    found.put(node("d", cpu=4))
    assert sorted(pool.pick(found.get_allocatable_column("cpu"))) == [1, 3, 4]


def test_rows_are_known_in_which_something_changed():
    found = table(node("a"), node("b"), node("c"))
    found.reserve("a", {"cpu": 1}, priority=0)
    mark = found.change_count
    assert found.find_changed_rows(mark) == frozenset()
    found.reserve("b", {"cpu": 1}, priority=0)
    found.reserve("unknown", {"cpu": 1}, priority=0)
    found.reserve("b", {"cpu": 1}, sign=-1, priority=0)
    assert found.find_changed_rows(mark) == {found.find_row("b")}
    for _ in range(1000):
        found.reserve("c", {"cpu": 1}, priority=0)
    assert found.find_changed_rows(mark) is None


def test_a_pool_knows_whether_it_has_any_of_some_rows():
    (pool,) = table(node("a"), node("b")).group_nodes(NodeGrouping())
    assert (pool.has_any({1, 7}), pool.has_any({7}), pool.has_any(())) == (True, False, False)


def test_a_row_is_used_again():
    found = table(node("a"), node("b"))
    found.get_free_column("cpu")
    found.remove("a")
    found.put(node("c", cpu=10))
    assert (len(found), len(found.get_free_column("cpu"))) == (2, 2)
    assert amounts(found, found.get_free_column("cpu")) == {"b": 1000, "c": 10}


def test_nodes_are_found_by_name():
    found = table(node("a"))
    assert found.get("a") == node("a")
    assert found.get("b") is None
    found.remove("a")
    found.remove("a")
    assert (found.get("a"), list(found)) == (None, [])


def test_an_empty_row_has_no_node():
    found = table(node("a"))
    found.remove("a")
    with pytest.raises(KeyError):
        found.get_by_row(0)


def test_what_a_pool_remembers_is_forgotten_when_a_node_of_it_changes():
    found = table(node("a"), node("b", "y"))
    here, there = sorted(found.group_nodes(BY_ZONE), key=lambda pool: pool.example.name)
    here.cache["size"] = there.cache["size"] = 1
    found.put(node("a", cpu=5))
    assert (here.cache, there.cache) == ({}, {"size": 1})


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "x", "y"]), st.integers(0, 3)), max_size=12))
def test_any_changes_lead_to_the_table_of_the_nodes_that_are_left(changes: list[tuple[str, str | None, int]]):
    found = table()
    found.group_nodes(BY_ZONE)
    found.get_free_column("cpu")
    left: dict[str, Node] = {}
    for name, zone, cpu in changes:
        if zone is None:
            found.remove(name)
            left.pop(name, None)
        else:
            left[name] = node(name, zone, cpu)
            found.put(left[name])
    fresh = table(*left.values())
    assert pools(found, BY_ZONE) == pools(fresh, BY_ZONE)
    if left:
        assert amounts(found, found.get_free_column("cpu")) == amounts(fresh, fresh.get_free_column("cpu"))
