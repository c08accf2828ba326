from __future__ import annotations

from gpuspawner.core.cluster.model import Node, Pod
from gpuspawner.core.scheduling.node_filters import compute_needs, find_shortages
from gpuspawner.core.scheduling.results import Obstacle, Reason

NODE = Node(name="a", allocatable={"cpu": 1000, "memory": 10, "pods": 1})


def wanted(**requests: int) -> tuple[tuple[str, int], ...]:
    return compute_needs(Pod(name="p", namespace="n", node=None, requests=requests))


def test_a_pod_takes_one_of_the_pods_and_what_it_requests():
    assert wanted(memory=5, cpu=0, gpu=2) == (("pods", 1), ("gpu", 2), ("memory", 5))


def test_a_node_that_has_exactly_enough_lacks_nothing():
    assert find_shortages(wanted(cpu=700), NODE, requested={"cpu": 300}) == ()


def test_a_node_lacks_what_others_requested():
    found = find_shortages(wanted(cpu=701, gpu=1), NODE, requested={"cpu": 300, "pods": 1})
    assert found == (
        Obstacle(reason=Reason.TOO_MANY_PODS),
        Obstacle(reason=Reason.INSUFFICIENT, detail="cpu"),
        Obstacle(reason=Reason.INSUFFICIENT, detail="gpu"),
    )
