from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from gpuspawner.core.catalog.gpu_node_exclusion import MatchExpression
from gpuspawner.core.catalog.model import Catalog, GPUType, Image
from gpuspawner.core.cluster.model import Node, Pod, Taint, Toleration
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.cpu_room import find_largest_node, has_room_on_cpu_node

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)}, max_count=4)
CATALOG = Catalog(images={"i": Image(slug="i", display_name="I", image="i")}, cpu=None, memory=None, gpus={"t4": T4})
PRESENT = Taint(key=GPU, value="present", effect="NoSchedule")


def node(name: str, gpus: int = 0, **changes: Any) -> Node:
    allocatable = {"cpu": 8000, "memory": 32 * GIB, "pods": 110} | ({GPU: gpus} if gpus else {})
    return replace(Node(name=name, labels={PRODUCT: "T4"} if gpus else {}, allocatable=allocatable), **changes)


_NUMBERS = count()


def pod(on: str | None, **requests: int) -> Pod:
    names = {"gpus": GPU}
    return Pod(
        name=f"p-{next(_NUMBERS)}",
        namespace="n",
        node=on,
        requests={names.get(key, key): n for key, n in requests.items()},
    )


def room(cpu: int, memory: int, *nodes: Node, pods: tuple[Pod, ...] | None = (), **tolerated: Any) -> bool:
    inventory = Inventory(nodes=nodes, pods=pods)
    return has_room_on_cpu_node(cpu, memory, inventory=inventory, catalog=CATALOG, **tolerated)


def test_a_cpu_node_with_room_has_room():
    assert room(8000, 32 * GIB, node("a"))


@pytest.mark.parametrize(
    ("cpu", "memory", "changed"),
    [
        (8001, GIB, {}),
        (1000, 33 * GIB, {}),
        (1000, GIB, {"ready": False}),
        (1000, GIB, {"taints": (PRESENT,)}),
        (1000, GIB, {"labels": {PRODUCT: "T4"}}),
        (1000, GIB, {"allocatable": {"cpu": 8000, "memory": 32 * GIB, "pods": 110, GPU: 1}}),
        (1000, GIB, {"allocatable": {"cpu": 8000, "memory": 32 * GIB, "pods": 0}}),
    ],
)
def test_a_node_that_would_not_take_the_server_has_no_room(cpu: int, memory: int, changed: dict[str, Any]):
    assert not room(cpu, memory, node("a", **changed))


def test_what_other_pods_request_is_no_room():
    assert not room(1000, GIB, node("a"), pods=(pod("a", cpu=7500),))


def test_what_waiting_pods_request_is_no_room():
    assert room(1000, GIB, node("a"), pods=(pod(None, cpu=7000),))
    assert not room(1000, GIB, node("a"), pods=(pod(None, cpu=4000), pod(None, cpu=3500)))


def test_a_pod_that_waits_for_a_gpu_leaves_room_elsewhere():
    assert room(1000, GIB, node("a"), pods=(pod(None, cpu=8000, gpus=1),))


def test_waiting_pods_count_against_how_many_a_node_holds():
    small = node("a", allocatable={"cpu": 8000, "memory": 32 * GIB, "pods": 2})
    assert room(1000, GIB, small, pods=(pod(None),))
    assert not room(1000, GIB, small, pods=(pod(None), pod(None)))


def test_the_node_of_a_hidden_type_is_no_room():
    hidden = replace(CATALOG, gpus={}, hidden=(T4,))
    for gpu_node in (node("a", labels={PRODUCT: "T4"}), node("a", 4, labels={})):
        inventory = Inventory(nodes=(gpu_node,), pods=())
        assert not has_room_on_cpu_node(1000, GIB, inventory=inventory, catalog=hidden)


@pytest.mark.parametrize(("architecture", "expected"), [("arm64", True), ("amd64", False)])
def test_a_node_that_the_image_was_not_built_for_is_no_room(architecture: str, expected: bool):
    required = (MatchExpression(key="kubernetes.io/arch", operator="In", values=("arm64",)),)
    assert room(1000, GIB, node("a", labels={"kubernetes.io/arch": architecture}), required=required) is expected


def test_a_node_that_holds_as_many_pods_as_it_may_has_no_room():
    full = node("a", allocatable={"cpu": 8000, "memory": 32 * GIB, "pods": 1})
    assert not room(1000, GIB, full, pods=(pod("a"),))


def test_a_taint_that_every_server_tolerates_leaves_room():
    assert room(1000, GIB, node("a", taints=(PRESENT,)), tolerations=(Toleration(operator="Exists"),))


def test_room_is_not_assumed_while_pods_are_unknown():
    assert not room(1000, GIB, node("a"), pods=None)


def test_the_largest_node_is_the_one_with_the_most_memory():
    nodes = (
        Node(name="a", allocatable={"cpu": 64_000, "memory": 32 * GIB}),
        Node(name="b", allocatable={"cpu": 8000, "memory": 64 * GIB}),
    )
    assert find_largest_node(Inventory(nodes=nodes)) == (8000, 64 * GIB)


@pytest.mark.parametrize("nodes", [None, ()])
def test_without_nodes_there_is_no_largest_one(nodes: tuple[Node, ...] | None):
    assert find_largest_node(Inventory(nodes=nodes)) is None


def test_the_control_plane_is_no_node_for_servers():
    taint = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    nodes = (node("control", taints=(taint,), allocatable={"cpu": 64_000, "memory": 256 * GIB}), node("a"))
    assert find_largest_node(Inventory(nodes=nodes)) == (8000, 32 * GIB)


def test_a_node_that_may_have_gpus_is_none_without():
    some, other = frozenset({GPU}), frozenset({"example.com/nic"})
    assert not room(1000, GIB, node("a", uncounted=some, published_by_dra=some))
    assert room(1000, GIB, node("a", uncounted=other, published_by_dra=other))


def test_a_node_without_signs_of_gpus_has_room_while_they_may_be_anywhere():
    anywhere = frozenset({GPU})
    assert room(1000, GIB, node("a", uncounted=anywhere))
    assert not room(1000, GIB, node("a", uncounted=anywhere, labels={PRODUCT: "T4"}))
