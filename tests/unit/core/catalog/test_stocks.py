from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.catalogue import GPUType
from gpuspawner.core.catalog.stocks import Stock, may_have, stocks, units
from gpuspawner.core.cluster.model import Demands, Node, NodeTerm, Requirement, Taint, Toleration
from gpuspawner.core.cluster.node_table import Layout
from gpuspawner.core.cluster.occupancy import Occupancy

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})
A100 = replace(T4, slug="a100", match={PRODUCT: ("A100",)})
TEAM = Taint(key="team", effect="NoSchedule")


def node(name: str, product: str = "T4", gpus: int = 4, **changes: Any) -> Node:
    labels = {PRODUCT: product, "zone": name}
    return replace(Node(name=name, labels=labels, capacity={GPU: gpus}, allocatable={GPU: gpus}), **changes)


def stock(gpu: GPUType, *nodes: Node, **options: Any) -> Stock:
    (found,) = stocks([gpu], Occupancy.of(nodes, ()).table, **options)
    return found


def names(gpu: GPUType, *nodes: Node, **options: Any) -> list[str]:
    table = Occupancy.of(nodes, ()).table
    (found,) = stocks([gpu], table, **options)
    return sorted(each.name for each in found.nodes(table))


def test_a_type_has_the_nodes_with_its_labels_and_its_resource():
    nodes = (node("a"), node("b", "A100"), node("c", gpus=0), node("d", allocatable={}))
    assert names(T4, *nodes) == ["a", "d"]


def test_its_nodes_are_those_that_are_there_now():
    occupancy = Occupancy.of([node("a"), node("b"), node("c", gpus=0)], ())

    def there() -> list[str]:
        (found,) = stocks([T4], occupancy.table)
        return sorted(each.name for each in found.nodes(occupancy.table))

    assert there() == ["a", "b"]
    occupancy.put_node(node("c"))
    assert there() == ["a", "b", "c"]
    occupancy.drop_node("a")
    assert there() == ["b", "c"]


def test_each_type_gets_its_own():
    table = Occupancy.of((node("a"), node("b", "A100")), ()).table
    found = stocks([A100, T4], table)
    assert [[each.name for each in one.nodes(table)] for one in found] == [["b"], ["a"]]


def test_any_of_several_types_has_the_nodes_of_all():
    either = replace(T4, slug="any", match={}, members=(T4, A100))
    assert names(either, node("a"), node("b", "A100"), node("c", "L4")) == ["a", "b"]


def test_a_node_reserved_for_others_is_none_of_them():
    table = Occupancy.of((node("a", taints=(TEAM,)),), ()).table
    (found,) = stocks([T4], table)
    assert (list(found.nodes(table)), found.has_reserved(table)) == ([], True)


def test_a_taint_may_be_tolerated_by_the_type_or_by_every_server():
    reserved = node("a", taints=(TEAM,))
    everyone = (Toleration(key="team", operator="Exists"),)
    assert names(T4, reserved, tolerations=everyone) == ["a"]
    assert names(replace(T4, tolerations=everyone), reserved) == ["a"]


@pytest.mark.parametrize(
    "changes", [{"unschedulable": True}, {"taints": (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)}]
)
def test_a_node_that_takes_no_servers_for_now_is_there_but_not_open(changes: dict[str, Any]):
    found = stock(T4, node("a", **changes))
    assert (len(found.pools), found.open) == (1, ())


def test_pools_can_be_told_apart_by_more_than_the_types_labels():
    found = stock(T4, node("a"), node("b"), alike=Layout(values=("zone",)))
    assert len(found.pools) == 2


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        (Demands(), True),
        (Demands(node_selector={PRODUCT: "T4"}), True),
        (Demands(node_selector={PRODUCT: "A100"}), False),
        (Demands(node_selector={"zone": "b"}), False),
        (
            Demands(node_terms=(NodeTerm(expressions=(Requirement(key="zone", operator="In", values=("a", "b")),)),)),
            True,
        ),
    ],
)
def test_a_pod_asks_for_a_type_when_one_of_its_nodes_would_do(demands: Demands, expected: bool):
    table = Occupancy.of((node("a"),), ()).table
    (found,) = stocks([T4], table)
    assert found.is_asked_for(demands, table) is expected


@pytest.mark.parametrize(("selector", "expected"), [({PRODUCT: "T4", "zone": "b"}, True), ({PRODUCT: "A100"}, False)])
def test_while_a_type_has_no_node_its_labels_say_who_asks_for_it(selector: dict[str, str], expected: bool):
    table = Occupancy.of((), ()).table
    (found,) = stocks([T4], table)
    assert found.is_asked_for(Demands(node_selector=selector), table) is expected


def test_units_that_do_not_work_are_units():
    assert units(node("a", allocatable={GPU: 1}), GPU) == 4


def test_a_node_that_may_have_units_is_one_of_them():
    bare: dict[str, Any] = {"allocatable": {}, "capacity": {}, "uncounted": frozenset({GPU})}
    assert names(T4, node("a", **bare), node("b", allocatable={}, capacity={})) == ["a"]
    table = Occupancy.of((node("a", taints=(TEAM,), **bare),), ()).table
    (found,) = stocks([T4], table)
    assert found.has_reserved(table)


def test_what_nobody_can_count_a_node_may_have():
    nodes = (node("a"), node("a", gpus=0), node("a", gpus=0, uncounted=frozenset({GPU})))
    assert [may_have(each, GPU) for each in nodes] == [True, False, True]
