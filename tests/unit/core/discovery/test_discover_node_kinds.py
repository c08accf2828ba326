"""Thousands of nodes are grouped by the facts that a catalog is made of, and by nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
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


POOL, MACHINE = "eks.amazonaws.com/nodegroup", "eks.amazonaws.com/instance-gpu-"


def build_kinds(number: int) -> list[Node]:
    """Return nodes of as many kinds; half of them have whole GPUs, half shares, and only the node groups differ."""
    machine = {f"{MACHINE}name": "t4", f"{MACHINE}manufacturer": "nvidia", f"{MACHINE}count": "1"}
    return [
        Node(name=f"n{at}", labels={**machine, POOL: f"g{at}"}, capacity=units, allocatable=units)
        for at in range(number)
        for units in ({GPU: 1 + 3 * (at % 2)},)
    ]


def build_models(number: int) -> list[Node]:
    """Return nodes of as many models; half of them have whole GPUs, half say that they have shares."""
    return [
        Node(name=f"n{at}", labels={PRODUCT: f"Model-{at // 2}{'-SHARED' * (at % 2)}"}, capacity={GPU: 4})
        for at in range(number)
    ]


def build_memories(number: int) -> list[Node]:
    """Return nodes of as many values in the match of one type."""
    machine = {f"{MACHINE}name": "t4", f"{MACHINE}manufacturer": "nvidia"}
    return [
        Node(name=f"n{at}", labels={**machine, f"{MACHINE}memory": f"{at}"}, capacity={GPU: 1}) for at in range(number)
    ]


@pytest.mark.parametrize("build", [build_kinds, build_models, build_memories])
def test_the_time_of_the_discovery_grows_no_faster_than_the_number_of_kinds(build: Callable[[int], list[Node]]):
    def measure(number: int) -> float:
        nodes, times = build(number), []
        for _ in range(3):
            began = time.process_time()
            discover_gpu_types(nodes, TABLE)
            times.append(time.process_time() - began)
        return min(times)

    assert measure(2000) <= 8 * measure(500)
