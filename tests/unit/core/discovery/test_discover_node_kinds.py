"""Thousands of nodes are grouped by the facts that a catalog is made of, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from gpuspawner.core.cluster.model import Node, Taint
from gpuspawner.core.discovery.discover import SIMULATED_LABEL, discover_gpu_types, group_nodes_by_kind
from tests.unit.core.discovery.test_discover import GPU, NODES, PRODUCT, TABLE

CARDS = {GPU: 8, "cpu": 95_690}
FIRST = Node(name="a", labels={PRODUCT: "H100", "kubernetes.io/hostname": "a"}, allocatable=CARDS, capacity=CARDS)


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, name="b"),
        replace(FIRST, labels={**FIRST.labels, "kubernetes.io/hostname": "b"}),
        replace(FIRST, labels={**FIRST.labels, "nvidia.com/gfd.timestamp": "1"}),
        replace(FIRST, allocatable={**CARDS, "cpu": 1}),
        replace(FIRST, unschedulable=True, ready=False),
    ],
)
def test_nodes_that_offer_the_same_are_of_one_kind(other: Node):
    assert group_nodes_by_kind([FIRST, other]) == ((FIRST, other),)


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, labels={PRODUCT: "A100"}),
        replace(FIRST, labels={**FIRST.labels, "nvidia.com/gpu.replicas": "4"}),
        replace(FIRST, labels={**FIRST.labels, "pool": "own"}),
        replace(FIRST, allocatable={**CARDS, GPU: 7}),
        replace(FIRST, capacity={**CARDS, "example.com/card": 1}),
        replace(FIRST, uncounted=frozenset({"amd.com/gpu"})),
        replace(FIRST, taints=(Taint(key="team", effect="NoSchedule"),)),
    ],
)
def test_nodes_that_offer_something_else_are_not(other: Node):
    assert group_nodes_by_kind([FIRST, other], labels={"pool"}) == ((FIRST,), (other,))


@given(NODES)
def test_the_types_of_all_nodes_are_those_of_their_kinds(nodes: list[Node]):
    cluster = [
        replace(node, name=f"{name}{number}", labels={**node.labels, "kubernetes.io/hostname": f"{name}{number}"})
        for name in "abc"
        for number, node in enumerate(nodes)
    ]
    found = group_nodes_by_kind(cluster, labels={SIMULATED_LABEL})
    assert len(found) <= len(nodes)
    assert sorted(node.name for kind in found for node in kind) == sorted(node.name for node in cluster)
    assert discover_gpu_types([kind[0] for kind in found], TABLE) == discover_gpu_types(cluster, TABLE)
