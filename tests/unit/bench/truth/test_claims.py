"""A reason is read as a claim, and the facts of the same cluster make the same claim."""

from __future__ import annotations

from typing import Any

import pytest

from bench.truth.claims import Claim, Kind, find_claim, is_confirmed, read_claim
from bench.truth.facts import View
from bench.truth.vocabulary import GPU, PRODUCT
from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.cluster.decode import decode_node, decode_pod
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.verdict import predict_verdict
from tests.unit.bench.truth.test_facts import gpu_node, gpu_pod


def broken(gpus: int) -> dict[str, Any]:
    made = gpu_node()
    made["status"]["allocatable"][GPU] = str(gpus)
    return made


def small(name: str = "a") -> dict[str, Any]:
    made = gpu_node(name)
    made["status"]["allocatable"]["pods"] = "1"
    return made


SCENES = {
    "in use": ([gpu_node()], [gpu_pod("x", 2, on="a")], gpu_pod(), Claim(Kind.IN_USE, (2,))),
    "the only one": ([gpu_node(gpus=1)], [gpu_pod("x", on="a")], gpu_pod(), Claim(Kind.IN_USE, (1,))),
    "in use, one broken": ([broken(1)], [gpu_pod("x", on="a")], gpu_pod(), Claim(Kind.IN_USE, (1,))),
    "in use, others closed": (
        [gpu_node(), gpu_node("b", unschedulable=True)],
        [gpu_pod("x", 2, on="a")],
        gpu_pod(),
        Claim(Kind.IN_USE, (2,)),
    ),
    "few": ([gpu_node()], [gpu_pod("x", on="a")], gpu_pod(gpus=2), Claim(Kind.FEW, (1, 2))),
    "split": (
        [gpu_node(), gpu_node("b")],
        [gpu_pod("x", on="a"), gpu_pod("y", on="b")],
        gpu_pod(gpus=2),
        Claim(Kind.SPLIT, (2, 1)),
    ),
    "broken": ([broken(0)], [], gpu_pod(), Claim(Kind.BROKEN, (2,))),
    "closed": ([gpu_node(unschedulable=True)], [], gpu_pod(), Claim(Kind.CLOSED)),
    "too little CPU": ([gpu_node()], [gpu_pod("x", 0, on="a", cpu="8")], gpu_pod(), Claim(Kind.TOO_LITTLE)),
    "not both": (
        [gpu_node(), gpu_node("b")],
        [gpu_pod("x", 0, on="a", cpu="7"), gpu_pod("y", 0, on="b", memory="31Gi")],
        gpu_pod(cpu="2", memory="2Gi"),
        Claim(Kind.TOO_LITTLE),
    ),
    "no slot": ([small()], [gpu_pod("x", 0, on="a")], gpu_pod(), Claim(Kind.SLOTS)),
}


@pytest.mark.parametrize(("nodes", "pods", "new", "claim"), SCENES.values(), ids=SCENES.keys())
def test_the_facts_of_a_scene_and_our_reason_make_the_same_claim(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], new: dict[str, Any], claim: Claim
):
    known = Occupancy.build(map(decode_node, nodes), filter(None, map(decode_pod, pods)))
    gpu = GPUType(
        slug="t4",
        display_name="T4",
        resource=GPU,
        vendor="nvidia",
        unit=UnitKind.CARD,
        match={PRODUCT: ("Tesla-T4",)},
        max_count=8,
    )
    inventory = Inventory(nodes=known.nodes, occupancy=known, scalable_pools=(), age_s=0.0)
    verdict = predict_verdict(decode_pod(new), inventory, gpu=gpu)
    assert (read_claim(verdict.reason), find_claim(View(nodes, pods), new)) == (claim, claim), verdict


@pytest.mark.parametrize(
    ("reason", "claim"),
    [
        ("No more nodes can be added right now.", Claim(Kind.NO_NEW_NODE)),
        ("All nodes that can be added are already taken.", Claim(Kind.NO_NEW_NODE)),
        ("Other servers keep it off the nodes with a free T4.", Claim(Kind.CROWD)),
        ("All 2 are in use, 1 does not work.", Claim(Kind.IN_USE, (2,))),
        ("The quota of the queue people is in use.", Claim(Kind.QUOTA_IN_USE)),
        ("The moon is full.", Claim(Kind.OTHER)),
    ],
    ids=["full", "already taken", "kept off", "one broken", "quota", "unknown"],
)
def test_other_reasons_are_read(reason: str, claim: Claim):
    assert read_claim(reason) == claim


def test_without_a_node_the_facts_have_no_reason_but_new_nodes():
    assert find_claim(View([], []), gpu_pod()) == Claim(Kind.NO_NEW_NODE)


@pytest.mark.parametrize(
    ("kind", "words", "confirmed"),
    [
        (Kind.IN_USE, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", True),
        (Kind.IN_USE, "0/3 nodes are available: 3 Insufficient cpu.", False),
        (Kind.CLOSED, "0/3 nodes are available: 3 node(s) were unschedulable.", True),
        (Kind.NO_NEW_NODE, "", True),
    ],
    ids=["same", "another", "closed", "no words for it"],
)
def test_the_scheduler_has_to_name_the_same_obstacle(kind: Kind, words: str, confirmed: bool):
    assert is_confirmed(Claim(kind), words) is confirmed
