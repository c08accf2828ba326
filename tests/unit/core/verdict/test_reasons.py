from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.cluster.model import (
    Node,
    NodeSelectorTerm,
    Pod,
    PodConstraints,
    ScalableNodePool,
    SelectorRequirement,
    SpreadConstraint,
    Taint,
)
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.verdict.reasons import explain_never, explain_wait, find_candidate_nodes

GIB = 1 << 30
GPU = "nvidia.com/gpu"
ARCH = "kubernetes.io/arch"
A100 = GPUType(slug="a100", display_name="A100", resource=GPU, vendor="nvidia", max_count=8)
TEAM = Taint(key="team", effect="NoSchedule")
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def node(name: str = "n", gpus: int = 4, cpu: int = 64, memory: int = 256, **changes: Any) -> Node:
    has = {"cpu": cpu * 1000, "memory": memory * GIB, "pods": 4} | ({GPU: gpus} if gpus else {})
    return replace(Node(name=name, allocatable=has, capacity=has, labels={ARCH: "amd64"}), **changes)


def pod(gpus: int = 1, cpu: int = 4, memory: int = 16, on: str | None = None, **constraints: Any) -> Pod:
    requests = {"cpu": cpu * 1000, "memory": memory * GIB} | ({GPU: gpus} if gpus else {})
    name = f"{on}-{gpus}-{cpu}-{memory}"
    return Pod(name=name, namespace="s", node=on, requests=requests, constraints=PodConstraints(**constraints))


def term(key: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(expressions=(SelectorRequirement(key=key, operator="In", values=values),))


def never(wanted: Pod, *nodes: Node, gpu: GPUType | None = A100, **options: Any) -> str:
    groups = [[each] for each in nodes]
    assert find_candidate_nodes(wanted, groups) == []
    return explain_never(wanted, groups, gpu=gpu, **options)


def waits(wanted: Pod, *nodes: Node, pods: tuple[Pod, ...] = (), gpu: GPUType | None = A100) -> str:
    named = tuple(replace(each, name=str(number)) for number, each in enumerate(pods))
    could = find_candidate_nodes(wanted, [[each] for each in nodes])
    return explain_wait(could, wanted, nodes=nodes, gpu=gpu, occupancy=Occupancy.build(nodes, named))


@pytest.mark.parametrize(
    ("wanted", "clause"),
    [
        (pod(5), "no node has 5 × A100; the most on one node is 4"),
        (pod(1, cpu=96), "no node with an A100 has 96 CPUs; the largest has 64"),
        (pod(4, cpu=48), "no node with 4 × A100 has 48 CPUs; the largest has 32"),
        (pod(1, memory=512), "no node with an A100 has 512 GiB of memory; the largest has 256 GiB"),
        (pod(1, cpu=64, memory=256), "no node with an A100 has both 64 CPUs and 256 GiB of memory"),
        (
            replace(pod(), requests={GPU: 1, "example.com/fpga": 1}),
            "no node with an A100 has everything that the server needs",
        ),
        (pod(volume_terms=((term("zone", "b"),),)), "no node with an A100 can reach the server's storage"),
        (
            pod(node_terms=(term(ARCH, "arm64"),)),
            "no node with an A100 has the kind of processor that the image is made for",
        ),
        (pod(node_selector={"pool": "x"}), "no node with an A100 is of the kind that servers like this one use"),
    ],
)
def test_what_no_node_has_is_said_in_the_users_words(wanted: Pod, clause: str):
    assert never(wanted, node("a", 4, 32, 256), node("b", 1, 64, 128)) == clause


def test_a_type_without_nodes_is_not_there():
    assert never(pod()) == "there is no A100 in the cluster"


def test_nodes_reserved_for_others_are_said_to_be():
    clause = "every node with an A100 is reserved for others"
    assert (never(pod(), reserved=True), never(pod(), node(taints=(TEAM,)))) == (clause, clause)


def test_without_a_gpu_it_is_about_nodes():
    assert never(pod(0, cpu=96), node(), gpu=None) == "no node has 96 CPUs; the largest has 64"
    assert never(pod(0), gpu=None) == "there is no node in the cluster"


def test_what_may_be_added_counts_as_there():
    scalable_pool = ScalableNodePool(name="A100", minutes=6, node_allocatable={GPU: 8}, max_new_nodes=1)
    assert never(pod(9), scalable_pools=[scalable_pool]) == "no node has 9 × A100; the most on one node is 8"
    assert never(pod(9), node(), scalable_pools=[replace(scalable_pool, max_new_nodes=0)]) == (
        "no node has 9 × A100; the most on one node is 4"
    )


@pytest.mark.parametrize(
    ("pods", "wanted", "clause"),
    [
        ((pod(4, on="a"), pod(1, on="b")), pod(), "all 5 are in use"),
        ((pod(3, on="a"),), pod(2), "only 1 of 4 that the server could use now is free"),
        (
            (pod(1, cpu=30, on="a"), pod(1, on="b")),
            pod(cpu=4),
            "no node with a free A100 has 4 CPUs left; the most is 2",
        ),
        (
            (pod(1, memory=250, on="a"), pod(1, on="b")),
            pod(2, memory=16),
            "no node with 2 × A100 free has 16 GiB of memory left; the most is 6 GiB",
        ),
        (
            (*[pod(0, 1, 1, on="a")] * 4, pod(1, on="b")),
            pod(),
            "the nodes with a free A100 hold as many servers as they may",
        ),
        ((pod(1, on="b"),), pod(), "other servers keep it off the nodes with a free A100"),
    ],
)
def test_amounts_in_use_are_named_in_the_users_words(pods: tuple[Pod, ...], wanted: Pod, clause: str):
    assert waits(wanted, node("a", 4, 32, 256), node("b", 1, 64, 128), pods=pods) == clause


def test_units_may_be_free_on_different_nodes():
    pods = (pod(3, on="a"), pod(3, on="b"))
    assert waits(pod(2), node("a"), node("b"), pods=pods) == "2 are free, but no more than 1 on one node"
    assert waits(pod(3), node("a"), node("b"), pods=pods) == "only 2 of 8 are free"


def test_cpu_and_memory_may_be_left_on_different_nodes():
    pods = (pod(0, 60, 16, on="a"), pod(0, 4, 250, on="b"))
    clause = "no node with a free A100 has both 16 CPUs and 64 GiB of memory left"
    assert waits(pod(1, 16, 64), node("a"), node("b"), pods=pods) == clause


def test_one_alone_is_the_only_one():
    assert waits(pod(), node("a", 1), pods=(pod(1, on="a"),)) == "the only one is in use"


@pytest.mark.parametrize(("broken", "verb"), [(1, "does"), (2, "do")])
def test_broken_units_are_not_said_to_be_in_use(broken: int, verb: str):
    ailing = node("a", 4, capacity={GPU: 4 + broken})
    assert waits(pod(), ailing, pods=(pod(4, on="a"),)) == f"all 4 are in use, {broken} {verb} not work"


@pytest.mark.parametrize(
    ("broken", "clause"), [(1, "the only one does not work right now"), (2, "all 2 do not work right now")]
)
def test_units_that_all_broke_may_be_repaired(broken: int, clause: str):
    assert waits(pod(), node("a", 0, capacity={GPU: broken})) == clause


def test_units_that_the_server_could_not_use_are_distinguished():
    nodes = (node("a"), node("b", cpu=2), node("c", taints=(CORDONED,)))
    assert waits(pod(), *nodes, pods=(pod(4, on="a"),)) == "all 4 that the server could use now are in use"


def test_nodes_that_take_no_servers_for_now_are_said_to():
    assert waits(pod(), node("a", unschedulable=True)) == "the nodes with an A100 take no new servers right now"


def test_a_server_without_a_gpu_waits_for_room():
    clause = "no node has 32 CPUs left; the most is 4"
    assert waits(pod(0, cpu=32), node("a"), pods=(pod(0, cpu=60, on="a"),), gpu=None) == clause


def test_a_node_without_the_label_that_says_where_it_is_is_no_candidate():
    spread = (SpreadConstraint(max_skew=1, topology_key="zone", selector=()),)
    assert find_candidate_nodes(pod(spread_constraints=spread), [[node()]]) == []


SOME = frozenset({GPU})


@pytest.mark.parametrize("changes", [{}, {"unschedulable": True}, {"taints": (CORDONED,)}])
def test_a_node_may_hold_devices_without_a_count(changes: dict[str, Any]):
    uncounted = node(gpus=0, uncounted=SOME, **changes)
    assert find_candidate_nodes(pod(8), [[uncounted]]) == [uncounted]
    assert find_candidate_nodes(pod(8, cpu=96), [[uncounted]]) == []


def test_no_number_is_given_of_devices_without_a_count():
    uncounted = node(gpus=0, uncounted=SOME)
    clause = "no node with 8 × A100 has 96 CPUs; the largest has 64"
    assert never(pod(8, cpu=96), uncounted, node("m")) == clause
    assert waits(pod(cpu=4), replace(uncounted, unschedulable=True)) == (
        "the nodes with an A100 take no new servers right now"
    )
    assert waits(pod(cpu=4), uncounted, pods=(pod(0, cpu=62, on="n"),)) == (
        "no node with a free A100 has 4 CPUs left; the most is 2"
    )
    full = (pod(4, on="m"),)
    assert waits(pod(), replace(uncounted, unschedulable=True), node("m"), pods=full) == (
        "all 4 that the server could use now are in use"
    )


@pytest.mark.parametrize(
    ("there", "could"),
    [
        (node(gpus=0), True),
        (node(gpus=4, published_by_dra=SOME), True),
        (node(gpus=4), False),
        (node(gpus=0, cpu=2), False),
    ],
)
def test_a_node_may_hold_more_than_is_seen_unless_kubelet_counts_it(there: Node, could: bool):
    assert find_candidate_nodes(pod(8), [[there]], unseen=SOME) == ([there] if could else [])
