from __future__ import annotations

import pytest

from gpuspawner.cli.explain.explanation import _OBSTACLE_TEXTS, group_nodes
from gpuspawner.core.cluster.model import Node, Pod, Taint
from gpuspawner.core.cluster.state import KnownOccupancy, Occupancy
from gpuspawner.core.scheduling.results import Reason

AMOUNTS = {"cpu": 4000, "memory": 2**30, "pods": 10, "nvidia.com/gpu": 2}
POD = Pod(name="p", namespace="n", node=None, requests={"cpu": 1000, "nvidia.com/gpu": 1})


def known(*nodes: Node, pods: tuple[Pod, ...] = (), pods_known: bool = True) -> KnownOccupancy:
    return KnownOccupancy(Occupancy.build(nodes, pods), pods_known=pods_known)


def test_nodes_stand_in_groups_those_that_take_the_pod_first_then_the_largest():
    free = Node(name="free", allocatable=AMOUNTS)
    full = [Node(name=f"full-{number}", allocatable=AMOUNTS) for number in range(2)]
    taken = tuple(Pod(name=node.name, namespace="n", node=node.name, requests={"nvidia.com/gpu": 2}) for node in full)
    tainted = Node(name="tainted", allocatable=AMOUNTS, taints=(Taint(key="team", effect="NoSchedule"),))
    assert group_nodes(POD, known(free, *full, tainted, pods=taken)) == [
        {"number": 1, "names": ["free"], "answer": "yes", "why": []},
        {"number": 2, "names": ["full-0", "full-1"], "answer": "no", "why": ["insufficient nvidia.com/gpu"]},
        {"number": 1, "names": ["tainted"], "answer": "no", "why": ["untolerated taint team"]},
    ]


@pytest.mark.parametrize("reason", Reason)
def test_there_are_words_for_every_reason(reason: Reason):
    assert _OBSTACLE_TEXTS[reason]
