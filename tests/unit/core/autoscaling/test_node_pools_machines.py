from __future__ import annotations

import pytest

from gpuspawner.core.autoscaling.node_pools import NODE_COUNT, has_capacity_left, is_within_limits
from gpuspawner.core.cluster.model import MachineConstraints

GPU = "nvidia.com/gpu"
CARDS = MachineConstraints(limits={GPU: 16}, remaining={GPU: 6})


@pytest.mark.parametrize(("gpus", "is_within"), [(0, True), (16, True), (17, False)])
def test_a_pod_that_asks_for_more_than_the_limits_gets_no_machine(gpus: int, is_within: bool):
    assert is_within_limits(CARDS, {GPU: gpus, "cpu": 10**6}) is is_within


def test_a_limit_of_no_nodes_allows_none():
    assert not is_within_limits(MachineConstraints(limits={NODE_COUNT: 0}), {})


@pytest.mark.parametrize(
    ("gpus", "left"), [([1], True), ([6], True), ([7], False), ([2, 5], False), ([2, 4], True), ([1] * 6, True)]
)
def test_each_pod_takes_what_it_asks_for_of_the_limits(gpus: list[int], left: bool):
    *ahead, own = [{GPU: number} for number in gpus]
    assert has_capacity_left(CARDS, own, ahead=ahead) is left


@pytest.mark.parametrize("ahead", [[8], [7, 7], [8, 2]], ids=["one", "two", "with-another"])
def test_a_pod_ahead_for_which_the_limits_allow_no_machine_takes_nothing_of_them(ahead: list[int]):
    assert has_capacity_left(CARDS, {GPU: 4}, ahead=[{GPU: number} for number in ahead])


def test_each_pod_takes_a_node_of_the_limit_of_nodes():
    pool = MachineConstraints(limits={NODE_COUNT: 2}, remaining={NODE_COUNT: 2})
    assert [has_capacity_left(pool, {GPU: 1}, ahead=[{GPU: 1}] * number) for number in range(3)] == [True, True, False]


def test_usage_beyond_a_limit_leaves_nothing():
    assert not has_capacity_left(MachineConstraints(limits={"cpu": 4000}, remaining={"cpu": -1000}), {GPU: 1})


def test_without_limits_there_is_always_room():
    assert has_capacity_left(MachineConstraints(), {GPU: 8}, ahead=[{GPU: 8}] * 1000)
