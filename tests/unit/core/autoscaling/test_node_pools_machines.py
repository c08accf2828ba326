from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.autoscaling.node_pools import NODE_COUNT, find_largest_size, has_capacity_left, may_fit_machine
from gpuspawner.core.cluster.model import MachineConstraints

GPU = "nvidia.com/gpu"
GIB = 1 << 30
CARDS = MachineConstraints(sizes={GPU: (1, 4, 8)}, limits={GPU: 16}, remaining={GPU: 6})


@pytest.mark.parametrize(("gpus", "holds"), [(0, True), (2, True), (8, True), (9, False)])
def test_no_machine_is_larger_than_the_largest(gpus: int, holds: bool):
    assert may_fit_machine(CARDS, {GPU: gpus, "cpu": 10**6}) is holds


def test_a_machine_that_the_limits_never_allow_is_none():
    small = MachineConstraints(sizes={GPU: (4, 8)}, limits={GPU: 6})
    assert [may_fit_machine(small, {GPU: gpus}) for gpus in (1, 6, 7)] == [True, True, False]


def test_a_machine_that_counts_for_less_than_its_size_may_be_within_the_limits():
    nominal = MachineConstraints(
        sizes={"memory": (64 * GIB,)}, limits={"memory": 60 * GIB}, remaining={"memory": 60 * GIB}
    )
    assert may_fit_machine(nominal, {"memory": 50 * GIB})


def test_a_limit_of_no_nodes_allows_none():
    assert not may_fit_machine(MachineConstraints(limits={NODE_COUNT: 0}), {})


def test_where_no_size_is_possible_nothing_fits():
    assert not may_fit_machine(MachineConstraints(sizes={GPU: range(5, 3)}), {GPU: 1})


@pytest.mark.parametrize(
    ("gpus", "left"), [([1], True), ([2], True), ([5], False), ([2, 2], False), ([1, 4], True), ([1] * 6, True)]
)
def test_each_pod_takes_a_machine_of_a_size_that_there_is(gpus: list[int], left: bool):
    *ahead, own = [{GPU: number} for number in gpus]
    assert has_capacity_left(CARDS, own, ahead=ahead) is left


@pytest.mark.parametrize("ahead", [[8], [5, 5], [8, 1]], ids=["one", "two", "with-another"])
def test_a_pod_ahead_for_which_the_limits_allow_no_machine_takes_nothing_of_them(ahead: list[int]):
    assert has_capacity_left(CARDS, {GPU: 4}, ahead=[{GPU: number} for number in ahead])


def test_where_sizes_are_not_known_a_pod_takes_what_it_asks_for():
    pool = MachineConstraints(limits={"cpu": 10_000, NODE_COUNT: 2}, remaining={"cpu": 5000, NODE_COUNT: 2})
    one = {"cpu": 2000}
    assert [has_capacity_left(pool, one, ahead=[one] * number) for number in range(3)] == [True, True, False]


def test_usage_beyond_a_limit_leaves_nothing():
    assert not has_capacity_left(MachineConstraints(limits={"cpu": 4000}, remaining={"cpu": -1000}), {GPU: 1})


def test_without_limits_there_is_always_room():
    assert has_capacity_left(MachineConstraints(), {GPU: 8}, ahead=[{GPU: 8}] * 1000)


@pytest.mark.parametrize(("name", "most"), [(GPU, 8), ("cpu", 4000), ("memory", None)])
def test_the_largest_machine_is_bounded_by_sizes_and_limits(name: str, most: int | None):
    pool = MachineConstraints(sizes={GPU: (1, 8), "cpu": range(1000, 9000, 1000)}, limits={GPU: 16, "cpu": 4000})
    assert find_largest_size(pool, name) == most


sizes = st.lists(st.integers(0, 16), max_size=4, unique=True).map(sorted).map(tuple) | st.builds(
    range, st.integers(0, 4), st.integers(0, 16), st.integers(1, 3)
)


@given(sizes, st.integers(0, 16), st.integers(0, 16), st.integers(0, 17))
def test_room_is_there_only_if_some_machine_fits_into_what_is_left(
    amounts: tuple[int, ...] | range, limit: int, used: int, wanted: int
):
    pool = MachineConstraints(sizes={GPU: amounts}, limits={GPU: limit}, remaining={GPU: limit - used})
    enough = [amount for amount in amounts if amount >= wanted]
    assert may_fit_machine(pool, {GPU: wanted}) is (wanted <= limit and wanted <= max(amounts, default=0))
    if enough:
        assert has_capacity_left(pool, {GPU: wanted}) is any(amount <= limit - used for amount in enough)
