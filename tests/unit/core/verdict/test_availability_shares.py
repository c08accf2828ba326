"""The share of a node's CPU and memory that belongs to one of its GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import Bounds, GPUType, UnitKind
from gpuspawner.core.cluster.model import Node
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.availability import NodeShare, count_availability, suggest_amount

GIB = 1 << 30
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
PRODUCT = "nvidia.com/gpu.product"
A100 = GPUType(
    slug="a100",
    display_name="A100",
    resource=GPU,
    vendor="nvidia",
    match={PRODUCT: ("A100",)},
    max_count=8,
    memory_bytes=80 * GIB,
)
SLICE = replace(A100, slug="slice", resource=MIG, unit=UnitKind.MIG, memory_bytes=10 * GIB)
T4 = replace(A100, slug="t4", match={PRODUCT: ("T4",)}, memory_bytes=None)
# Of 100 CPUs and 1000 GiB, 95 CPUs and 950 GiB are left for servers.
CPU, MEMORY = 100_000, 1000 * GIB


def node(name: str = "a", *, product: str = "A100", cpu: int = CPU, memory: int = MEMORY, **facts: Any) -> Node:
    units = facts.pop("units", {GPU: 8})
    found = {"cpu": cpu, "memory": memory, "pods": 110, **units}
    return Node(name=name, labels={PRODUCT: product}, allocatable=found, **{"capacity": found, **facts})


def shares(*nodes: Node, gpus: tuple[GPUType, ...] = (A100,)) -> list[NodeShare | None]:
    inventory = Inventory(occupancy=Occupancy.build(nodes, ()))
    return [each.share for each in count_availability(gpus, inventory)]


def test_a_nodes_cpu_and_memory_are_divided_among_its_gpus():
    assert shares(node()) == [NodeShare(95_000 // 8, 950 * GIB // 8)]


def test_a_small_node_keeps_enough_for_the_pods_of_every_node():
    small = node(cpu=3000, memory=4 * GIB, units={GPU: 1})
    assert shares(small) == [NodeShare(2750, 4 * GIB - GIB // 2)]


def test_a_node_that_is_smaller_than_what_is_kept_has_nothing_left():
    assert shares(node(cpu=100, memory=GIB // 4)) == [NodeShare(0, 0)]


def test_whole_gpus_and_slices_beside_them_share_a_node_by_their_memory():
    both = node(units={GPU: 4, MIG: 8})  # 320 GiB and 80 GiB of GPU memory
    assert shares(both, gpus=(A100, SLICE)) == [
        NodeShare(95_000 * 80 // 400, 950 * GIB * 80 // 400),
        NodeShare(95_000 * 10 // 400, 950 * GIB * 10 // 400),
    ]


def test_where_a_size_is_unknown_all_units_count_alike():
    both = node(units={GPU: 4, MIG: 6})
    unknown = replace(SLICE, memory_bytes=None)
    assert shares(both, gpus=(A100, unknown)) == [NodeShare(9_500, 95 * GIB)] * 2


def test_a_type_that_combines_others_counts_no_unit_twice():
    any_of_them = replace(A100, slug="any", match={PRODUCT: ("A100", "T4")}, memory_bytes=None)
    assert shares(node(), gpus=(any_of_them, A100)) == shares(node(), gpus=(A100,)) * 2


def test_without_nodes_that_are_known_no_share_is():
    assert [each.share for each in count_availability([A100], Inventory())] == [None]


BOUNDS = Bounds(min=500, max=20_000, step=1000, default=1000)


@pytest.mark.parametrize(
    ("share", "number", "amount"),
    [
        pytest.param(500, 1, 500, id="the least"),
        pytest.param(499, 1, None, id="less than the least"),
        pytest.param(2499, 1, 1500, id="between two steps"),
        pytest.param(2500, 3, 7500, id="for three GPUs"),
        pytest.param(9000, 4, 19_500, id="more than the most"),
    ],
)
def test_a_suggestion_is_what_the_user_may_choose(share: int, number: int, amount: int | None):
    assert suggest_amount(share, number, bounds=BOUNDS) == amount


@given(st.integers(0, 40_000), st.integers(1, 16))
def test_a_suggestion_is_never_refused_and_never_more_than_the_share(share: int, number: int):
    amount = suggest_amount(share, number, bounds=BOUNDS)
    assert amount is None or (BOUNDS.contains(amount) and amount <= share * number < amount + max(1000, share * number))


@given(st.lists(st.tuples(st.integers(1, 200_000), st.integers(1, 16)), min_size=1, max_size=4))
def test_as_many_servers_as_a_node_has_gpus_find_room_with_their_shares(sizes: list[tuple[int, int]]):
    nodes = [node(str(number), cpu=cpu, units={GPU: gpus}) for number, (cpu, gpus) in enumerate(sizes)]
    (share,) = shares(*nodes)
    assert all(share.cpu_millis * gpus <= cpu for cpu, gpus in sizes)
