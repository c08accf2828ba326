from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.model import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    SelectorRequirement,
    SpreadConstraint,
    Taint,
)
from gpuspawner.core.verdict.verdict import Outcome, find_pods_ahead, select_runnable_pods
from tests.unit.core.verdicts import FULL, ON_T4, judged, node, node_pool, pod

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)})
NODE = Node(name="n", labels={PRODUCT: "T4", "zone": "a"})
MINE = Pod(
    name="mine", namespace="s", node=None, requests={GPU: 1}, constraints=PodConstraints(node_selector={PRODUCT: "T4"})
)


def ahead(*others: Pod, own: Pod = MINE, nodes: tuple[Node, ...] = (NODE,)) -> list[str]:
    return [each.name for each in find_pods_ahead(own, others, nodes=nodes, gpu=T4)]


def other(**changes: Any) -> Pod:
    return replace(MINE, name="other", **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["other"]),
        ({"requests": {GPU: 4, "cpu": 1}}, ["other"]),
        ({"requests": {"cpu": 1}}, []),
        ({"requests": {"amd.com/gpu": 1}}, []),
        ({"constraints": PodConstraints(node_selector={"zone": "a"})}, ["other"]),
        ({"constraints": PodConstraints(node_selector={"zone": "b"})}, []),
        ({"constraints": PodConstraints(node_selector={PRODUCT: "T4"}, is_gated=True)}, []),
        ({"terminating": True}, []),
        ({"priority": -1}, []),
        ({"priority": 1}, ["other"]),
        ({"created": "2026-01-01T00:00:00Z"}, ["other"]),
        ({"name": "mine"}, []),
        ({"name": "mine", "namespace": "other"}, ["mine"]),
    ],
)
def test_who_wants_the_same_and_comes_first_is_ahead(changes: dict[str, Any], expected: list[str]):
    assert ahead(replace(MINE, **{"name": "other", **changes})) == expected


@pytest.mark.parametrize(
    ("created", "priority", "expected"),
    [("2026-01-01", 0, ["other"]), ("2026-01-03", 0, []), ("2026-01-03", 1, ["other"])],
)
def test_a_pod_that_waits_already_is_behind_older_ones_alone(created: str, priority: int, expected: list[str]):
    own = replace(MINE, created="2026-01-02")
    assert ahead(other(created=created, priority=priority), own=own) == expected


def test_a_server_without_a_gpu_waits_behind_those_without_one():
    own = replace(MINE, requests={"cpu": 1}, constraints=PodConstraints())
    assert ahead(other(requests={"cpu": 2}, constraints=PodConstraints()), other(), own=own) == ["other"]


def test_who_does_not_tolerate_the_nodes_is_not_ahead():
    tainted = replace(NODE, taints=(Taint(key="team", effect="NoSchedule"),))
    assert ahead(other(constraints=PodConstraints(node_selector={"zone": "a"})), nodes=(tainted,)) == []


def test_who_has_another_selector_is_ahead_also_while_the_nodes_take_no_pods():
    cordoned = replace(NODE, taints=(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),))
    assert ahead(other(constraints=PodConstraints()), nodes=(cordoned,)) == ["other"]


@pytest.mark.parametrize(("product", "expected"), [("T4", ["other"]), ("A100", [])])
def test_while_there_is_no_node_the_types_labels_tell(product: str, expected: list[str]):
    constraints = PodConstraints(node_selector={PRODUCT: product, "zone": "a"})
    assert ahead(other(constraints=constraints), nodes=()) == expected


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(pod("x", 4), 1, id="needs a whole node"),
        pytest.param(pod("x", 5), 0, id="needs more GPUs than a node has"),
        pytest.param(replace(pod("x"), requests={GPU: 1, "cpu": 96_000}), 0, id="needs more CPUs than a node has"),
        pytest.param(replace(pod("x", 4), constraints=PodConstraints()), 1, id="may use any node"),
    ],
)
def test_who_is_too_large_for_every_node_is_not_ahead(waiting: Pod, expected: int):
    found = judged(pod(), node(), pods=(*FULL, waiting))
    assert (found.outcome, found.ahead) == (Outcome.WAITS, expected)


def test_only_nodes_that_a_pod_may_use_tell_whether_it_is_too_large():
    large = replace(node("m", 8), labels={PRODUCT: "T4", "zone": "b"})
    small = replace(node(), labels={PRODUCT: "T4", "zone": "a"})
    waiting = replace(pod("x", 8), constraints=PodConstraints(node_selector={"zone": "a"}))
    taken = (*FULL, replace(pod("c", 8), node="m"))
    assert judged(pod(), small, large, pods=(*taken, waiting)).ahead == 0


@pytest.mark.parametrize(("gpus", "expected"), [(8, 1), (10, 0)], ids=["fits a new node", "too large for it"])
def test_who_only_fits_a_new_node_is_ahead_where_one_may_be_added(gpus: int, expected: int):
    pools = (node_pool(limits={GPU: 9}),)
    found = judged(pod(), node(), pods=(*FULL, pod("x", gpus)), scalable_pools=pools)
    assert (found.outcome, found.ahead) == (Outcome.AFTER_SCALE_UP, expected)


def test_with_many_pods_that_are_too_large_the_rest_is_taken_for_ahead():
    nodes = [node(f"n{number}", 1, unschedulable=True) for number in range(1000)]
    waiting = [replace(pod(f"x{number}"), requests={GPU: 1, "cpu": 65_000 + number}) for number in range(12)]
    assert judged(pod(), *nodes, pods=tuple(waiting)).ahead == 2


IN_ZONE_B = NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=("b",)),))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"volume_terms": ((IN_ZONE_B,),)}, id="a volume in another zone"),
        pytest.param(
            {"affinity": (PodAffinityTerm(topology_key="rack", selector=(), namespaces=frozenset()),)}, id="affinity"
        ),
        pytest.param(
            {"spread_constraints": (SpreadConstraint(max_skew=1, topology_key="rack", selector=()),)}, id="spread"
        ),
    ],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_of_two_alike_the_one_that_no_node_can_take_is_not_ahead(change: dict[str, Any], is_first: bool):
    zoned = node(labels={PRODUCT: "T4", "zone": "a"})
    stuck = replace(pod("x"), constraints=replace(ON_T4, **change))
    waiting = (stuck, pod("y")) if is_first else (pod("y"), stuck)
    assert judged(pod(), zoned, pods=(*FULL, *waiting)).ahead == 1


def test_pods_that_only_a_late_node_can_take_are_compared_with_few_nodes():
    compared = 0

    class CountedNodes(list[Node]):
        def __iter__(self) -> Iterator[Node]:
            nonlocal compared
            for each in super().__iter__():
                compared += 1
                yield each

    nodes = CountedNodes([*(node(f"n{number}", 1) for number in range(999)), node("last", 8)])
    waiting = [replace(pod(f"x{number}"), requests={GPU: 2, "cpu": 1000 + number}) for number in range(500)]
    assert select_runnable_pods(waiting, nodes=nodes, pools=()) == tuple(waiting)
    assert compared <= 2 * len(nodes)
