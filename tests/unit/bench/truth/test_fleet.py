"""Fleets are drawn from their number alone, and have everything that the benchmark is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench.truth import facts
from bench.truth.facts import View
from bench.truth.fleet import Fleet, draw_fleet
from bench.truth.vocabulary import GPU, PRODUCT, TEAM_TAINT, USUAL_TAINT
from gpuspawner.settings import Settings

SEEDS = range(200)


def features(fleet: Fleet) -> Iterator[str]:
    for node in fleet.nodes:
        status, taints = node["status"], node["spec"]["taints"]
        names = {
            "cordoned": bool(node["spec"].get("unschedulable")),
            "broken GPU": status["allocatable"].get(GPU) != status["capacity"].get(GPU),
            "usual taint": USUAL_TAINT in taints,
            "taint of a team": TEAM_TAINT in taints,
            "without GPUs": GPU not in status["capacity"],
        }
        yield from (name for name, is_so in names.items() if is_so)
    for pool in fleet.pools:
        yield "NodePool"
        yield f"limit of {min(pool['spec']['limits'])}"
        yield "NodePool with a taint" if "taints" in pool["spec"]["template"]["spec"] else "NodePool without"
        yield f"{len(pool['spec']['template']['spec']['requirements'])} requirements"
    for pod in fleet.pods:
        yield "bound" if "nodeName" in pod["spec"] else "waiting"
        yield f"priority {pod['spec'].get('priorityClassName', '')}"
    yield "refilled" if fleet.is_refilled else "not refilled"
    yield "described" if fleet.settings["gpus"] else "all discovered"
    yield "hidden NodePools" if fleet.hides_pools else "NodePools that are read"
    if fleet.placeholders:
        yield "placeholders"


def test_everything_that_is_meant_to_be_drawn_occurs():
    counted = Counter(name for seed in SEEDS for name in features(draw_fleet(seed)))
    assert set(counted) == {
        *("cordoned", "broken GPU", "usual taint", "taint of a team", "without GPUs"),
        *("NodePool", "limit of cpu", f"limit of {GPU}", "NodePool with a taint", "NodePool without"),
        *("1 requirements", "3 requirements"),
        *("bound", "waiting", "priority ", "priority urgent", "priority patient"),
        *("refilled", "not refilled", "described", "all discovered", "placeholders"),
        *("hidden NodePools", "NodePools that are read"),
    }


def test_a_number_always_draws_the_same_fleet_and_another_number_another():
    assert draw_fleet(7) == draw_fleet(7)
    assert draw_fleet(7) != draw_fleet(8)


def test_bound_pods_find_the_gpus_of_their_nodes():
    for seed in SEEDS:
        fleet = draw_fleet(seed)
        left = facts.free(View(fleet.nodes, (*fleet.placeholders, *fleet.pods)), fleet.nodes)
        assert [each for each in left if each.get(GPU, 0) < 0] == []


def test_a_type_that_only_a_new_node_would_have_is_described_in_the_settings():
    for seed in SEEDS:
        fleet = draw_fleet(seed)
        assert Settings.parse(fleet.settings).changed
        described = {value for gpu in fleet.settings["gpus"].values() for value in gpu["match"][PRODUCT]}
        assert {pool["spec"]["template"]["metadata"]["labels"][PRODUCT] for pool in fleet.pools} <= described
        assert described <= fleet.products


def test_only_a_hub_that_sees_what_may_be_added_says_that_nothing_else_is():
    for fleet in map(draw_fleet, SEEDS):
        assert ("new_nodes" in fleet.settings) is not fleet.hides_pools
