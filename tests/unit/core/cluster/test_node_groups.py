from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.model import Node, Taint
from gpuspawner.core.cluster.node_groups import NodeGrouping, NodeGroups

BY_ZONE = NodeGrouping(values=("zone",))


def node(name: str, zone: str = "x", cpu: int = 1000) -> Node:
    return Node(name=name, labels={"zone": zone, "host": name}, allocatable={"cpu": cpu})


def make(*nodes: Node) -> NodeGroups:
    groups = NodeGroups()
    for known in nodes:
        groups.put(known)
    return groups


def names(groups: NodeGroups, grouping: NodeGrouping) -> list[list[str]]:
    return sorted(sorted(group) for group in groups.group_nodes(grouping))


@pytest.mark.parametrize(
    ("grouping", "expected"),
    [
        pytest.param(NodeGrouping(), [["a", "b"]], id="nothing named"),
        pytest.param(NodeGrouping(values=("missing",)), [["a", "b"]], id="a label that no node has"),
        pytest.param(NodeGrouping(presence=("zone",)), [["a", "b"]], id="a label that all have"),
        pytest.param(NodeGrouping(by_name=True), [["a"], ["b"]], id="names"),
    ],
)
def test_only_what_a_grouping_names_tells_groups_apart(grouping: NodeGrouping, expected: list[list[str]]):
    assert names(make(node("a"), node("b", "y")), grouping) == expected


def test_taints_cordons_and_devices_always_tell_groups_apart():
    nodes = (
        node("a"),
        Node(name="b", taints=(Taint(key="gpu", effect="NoSchedule"),)),
        Node(name="c", unschedulable=True),
        Node(name="d", uncounted=frozenset({"gpu"})),
        Node(name="e", published_by_dra=frozenset({"gpu"})),
    )
    assert names(make(*nodes), NodeGrouping()) == [["a"], ["b"], ["c"], ["d"], ["e"]]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "x", "y"]), st.integers(0, 3)), max_size=12))
def test_any_changes_lead_to_the_groups_of_the_nodes_that_are_left(changes: list[tuple[str, str | None, int]]):
    groups = make()
    groups.group_nodes(BY_ZONE)
    left: dict[str, Node] = {}
    for name, zone, cpu in changes:
        if zone is None:
            groups.remove(name)
            left.pop(name, None)
        else:
            left[name] = node(name, zone, cpu)
            groups.put(left[name])
    assert names(groups, BY_ZONE) == names(make(*left.values()), BY_ZONE)
    assert {name: known for group in groups.group_nodes(BY_ZONE) for name, known in group.items()} == left
