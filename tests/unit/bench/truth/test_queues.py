"""Queues are drawn from the fleet's number, as the hub's settings name them, and have every trouble."""

from __future__ import annotations

from bench.truth.fleet import draw_fleet
from bench.truth.queues import EVERY, Queue, Trouble
from gpuspawner.settings import Settings

SEEDS = range(0, 300 * EVERY, EVERY)


def draw(seed: int) -> Queue:
    queue = draw_fleet(seed).queue
    assert queue is not None
    return queue


def test_each_trouble_occurs():
    assert {draw(seed).trouble for seed in SEEDS} == set(Trouble)


def test_one_fleet_in_three_has_a_queue_that_its_hub_names():
    fleets = [draw_fleet(seed) for seed in range(3 * EVERY)]
    assert [fleet.queue is not None for fleet in fleets] == [True, False, False] * 3
    for fleet in fleets:
        Settings.parse(fleet.settings)
        assert fleet.settings.get("queue") == (fleet.queue.settings if fleet.queue else None)


def test_the_hub_names_a_priority_class_that_exists_unless_that_is_the_trouble():
    for queue in map(draw, SEEDS):
        classes = {each["metadata"]["name"] for each in queue.objects if each["kind"] == "WorkloadPriorityClass"}
        named = {queue.settings.get("priority_class")} - {None}
        assert (named <= classes) is (queue.trouble is not Trouble.NO_CLASS)
