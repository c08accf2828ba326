from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.catalog.nodes_by_type import group_nodes_by_type
from gpuspawner.core.cluster.model import Node, NodeSelectorTerm, PodConstraints, SelectorRequirement
from gpuspawner.core.cluster.state import Occupancy

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})
A100 = replace(T4, slug="a100", match={PRODUCT: ("A100",)})


def node(name: str, product: str = "T4", gpus: int = 4, **changes: Any) -> Node:
    labels = {PRODUCT: product, "zone": name}
    return replace(Node(name=name, labels=labels, capacity={GPU: gpus}, allocatable={GPU: gpus}), **changes)


def names(gpu: GPUType, *nodes: Node, **options: Any) -> list[str]:
    (found,) = group_nodes_by_type([gpu], Occupancy.build(nodes, ()).node_groups, **options)
    return sorted(each.name for each in found.list_nodes())


def test_any_of_several_types_has_the_nodes_of_all():
    either = replace(T4, slug="any", match={}, members=(T4, A100))
    assert names(either, node("a"), node("b", "A100"), node("c", "L4")) == ["a", "b"]


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (PodConstraints(), True),
        (PodConstraints(node_selector={PRODUCT: "T4"}), True),
        (PodConstraints(node_selector={PRODUCT: "A100"}), False),
        (PodConstraints(node_selector={"zone": "b"}), False),
        (
            PodConstraints(
                node_terms=(
                    NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=("a", "b")),)),
                )
            ),
            True,
        ),
    ],
)
def test_a_pod_asks_for_a_type_when_one_of_its_nodes_would_do(constraints: PodConstraints, expected: bool):
    (found,) = group_nodes_by_type([T4], Occupancy.build((node("a"),), ()).node_groups)
    assert found.is_requested_by(constraints) is expected


@pytest.mark.parametrize(("selector", "expected"), [({PRODUCT: "T4", "zone": "b"}, True), ({PRODUCT: "A100"}, False)])
def test_while_a_type_has_no_node_its_labels_say_who_asks_for_it(selector: dict[str, str], expected: bool):
    (found,) = group_nodes_by_type([T4], Occupancy.build((), ()).node_groups)
    assert found.is_requested_by(PodConstraints(node_selector=selector)) is expected
