from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.autoscaling.machines import NODES, has_left, largest, may_hold
from gpuspawner.core.cluster.model import Machines

GPU = "nvidia.com/gpu"
GIB = 1 << 30
CARDS = Machines(sizes={GPU: (1, 4, 8)}, limits={GPU: 16}, left={GPU: 6})


@pytest.mark.parametrize(("gpus", "holds"), [(0, True), (2, True), (8, True), (9, False)])
def test_no_machine_is_larger_than_the_largest(gpus: int, holds: bool):
    assert may_hold(CARDS, {GPU: gpus, "cpu": 10**6}) is holds


def test_a_machine_that_the_limits_never_allow_is_none():
    small = Machines(sizes={GPU: (4, 8)}, limits={GPU: 6})
    assert [may_hold(small, {GPU: gpus}) for gpus in (1, 6, 7)] == [True, True, False]


def test_a_machine_that_counts_for_less_than_its_size_may_be_within_the_limits():
    nominal = Machines(sizes={"memory": (64 * GIB,)}, limits={"memory": 60 * GIB}, left={"memory": 60 * GIB})
    assert may_hold(nominal, {"memory": 50 * GIB})


def test_a_limit_of_no_nodes_allows_none():
    assert not may_hold(Machines(limits={NODES: 0}), {})


def test_where_no_size_is_possible_nothing_fits():
    assert not may_hold(Machines(sizes={GPU: range(5, 3)}), {GPU: 1})


@pytest.mark.parametrize(
    ("gpus", "left"), [([1], True), ([2], True), ([5], False), ([2, 2], False), ([1, 4], True), ([1] * 6, True)]
)
def test_each_pod_takes_a_machine_of_a_size_that_there_is(gpus: list[int], left: bool):
    assert has_left(CARDS, [{GPU: number} for number in gpus]) is left


def test_where_sizes_are_not_known_a_pod_takes_what_it_asks_for():
    pool = Machines(limits={"cpu": 10_000, NODES: 2}, left={"cpu": 5000, NODES: 2})
    assert [has_left(pool, [{"cpu": 2000}] * pods) for pods in (1, 2, 3)] == [True, True, False]


def test_what_is_used_beyond_a_limit_leaves_nothing():
    assert not has_left(Machines(limits={"cpu": 4000}, left={"cpu": -1000}), [{GPU: 1}])


def test_without_limits_there_is_always_room():
    assert has_left(Machines(), [{GPU: 8}] * 1000)


@pytest.mark.parametrize(("name", "most"), [(GPU, 8), ("cpu", 4000), ("memory", None)])
def test_the_largest_machine_is_bounded_by_sizes_and_limits(name: str, most: int | None):
    pool = Machines(sizes={GPU: (1, 8), "cpu": range(1000, 9000, 1000)}, limits={GPU: 16, "cpu": 4000})
    assert largest(pool, name) == most


sizes = st.lists(st.integers(0, 16), max_size=4, unique=True).map(sorted).map(tuple) | st.builds(
    range, st.integers(0, 4), st.integers(0, 16), st.integers(1, 3)
)


@given(sizes, st.integers(0, 16), st.integers(0, 16), st.integers(0, 17))
def test_room_is_there_only_if_some_machine_fits_into_what_is_left(
    amounts: tuple[int, ...] | range, limit: int, used: int, wanted: int
):
    pool = Machines(sizes={GPU: amounts}, limits={GPU: limit}, left={GPU: limit - used})
    enough = [amount for amount in amounts if amount >= wanted]
    assert may_hold(pool, {GPU: wanted}) is (wanted <= limit and wanted <= max(amounts, default=0))
    if enough:
        assert has_left(pool, [{GPU: wanted}]) is any(amount <= limit - used for amount in enough)
