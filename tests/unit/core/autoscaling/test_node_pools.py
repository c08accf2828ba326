from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.autoscaling.node_pools import (
    build_scale_up_pools,
    check_new_node,
    find_scale_up_minutes,
    has_room_after,
    may_add_gpu_type,
)
from gpuspawner.core.catalog.model import GPUType, ScaleUp
from gpuspawner.core.cluster.model import (
    MachineConstraints,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodConstraints,
    ScalableNodePool,
    SelectorRequirement,
    Taint,
)
from gpuspawner.core.scheduling.results import Answer

GIB = 1 << 30
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(
    slug="t4",
    display_name="T4",
    resource=GPU,
    vendor="nvidia",
    match={PRODUCT: ("T4",)},
    scale_up=ScaleUp(max_nodes=3, gpus_per_node=4, minutes=6),
)
IN_ZONE_A = ((NodeSelectorTerm(expressions=(SelectorRequirement(key="zone", operator="In", values=("a",)),)),),)


def node(name: str, gpus: int = 4, zone: str = "a", **changes: Any) -> Node:
    has = {"cpu": 8000, "memory": 32 * GIB, "pods": 10, GPU: gpus}
    return replace(Node(name=name, labels={PRODUCT: "T4", "zone": zone}, allocatable=has, capacity=has), **changes)


def pod(gpus: int = 1, cpu: int = 1000, **constraints: Any) -> Pod:
    return Pod(
        name="p", namespace="n", node=None, requests={"cpu": cpu, GPU: gpus}, constraints=PodConstraints(**constraints)
    )


def scalable_pool(*nodes: Node, **changes: Any) -> ScalableNodePool:
    (found,) = build_scale_up_pools(T4, nodes)
    return replace(found, **changes)


def test_what_the_admin_says_is_what_may_be_added():
    assert scalable_pool() == ScalableNodePool(
        name="T4", minutes=6, node_allocatable={GPU: 4}, max_new_nodes=3, labels={PRODUCT: ("T4",)}
    )


def test_nodes_that_are_there_count_and_show_what_new_ones_are_like():
    nodes = (node("a"), node("b", 2), node("c", labels={PRODUCT: "A100"}))
    found = scalable_pool(*nodes)
    assert (found.max_new_nodes, found.node_allocatable, found.examples) == (1, nodes[0].allocatable, nodes[:1])


def test_a_node_that_is_starting_is_one_to_be_added():
    assert scalable_pool(node("a", 0)).max_new_nodes == 3


def test_more_nodes_than_the_admin_said_leave_none():
    assert scalable_pool(*(node(str(number)) for number in range(5))).max_new_nodes == 0


def test_a_type_without_an_autoscaler_does_not_grow():
    assert build_scale_up_pools(replace(T4, scale_up=None), ()) == ()


def test_any_of_several_types_grows_where_one_of_them_does():
    a100 = replace(T4, display_name="A100", match={PRODUCT: ("A100",)}, scale_up=None)
    either = replace(T4, display_name="Any", match={}, scale_up=None, members=(a100, T4))
    assert [each.name for each in build_scale_up_pools(either, ())] == ["T4"]


def test_a_new_node_takes_at_most_the_minutes_of_the_slowest_of_several_types():
    slow, none = replace(T4, scale_up=ScaleUp(max_nodes=1, gpus_per_node=1, minutes=20)), replace(T4, scale_up=None)
    either = replace(none, members=(T4, slow, none))
    assert [find_scale_up_minutes(gpu) for gpu in (T4, none, either)] == [6, None, 20]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod(4), Answer.YES),
        (pod(5), Answer.NO),
        (pod(cpu=10**6), Answer.YES),
        (pod(node_selector={PRODUCT: "T4", "zone": "b"}), Answer.YES),
        (pod(node_selector={PRODUCT: "A100"}), Answer.NO),
        (pod(volume_terms=IN_ZONE_A), Answer.UNKNOWN),
        (pod(undecided=("a resource claim",)), Answer.UNKNOWN),
        (pod(affinity=(PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset()),)), Answer.UNKNOWN),
    ],
)
def test_the_first_node_of_a_pool_is_what_the_admin_says(wanted: Pod, expected: Answer):
    assert check_new_node(scalable_pool(), wanted) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod(cpu=8000), Answer.YES),
        (pod(cpu=8001), Answer.NO),
        (pod(node_selector={"zone": "a"}), Answer.YES),
        (pod(node_selector={"zone": "b"}), Answer.UNKNOWN),
        (pod(volume_terms=IN_ZONE_A), Answer.YES),
    ],
)
def test_a_further_node_is_like_those_that_are_there(wanted: Pod, expected: Answer):
    assert check_new_node(scalable_pool(node("n", unschedulable=True)), wanted) is expected


def test_a_taint_that_is_not_tolerated_leaves_it_open():
    tainted = node("n", taints=(Taint(key="team", effect="NoSchedule"),))
    assert check_new_node(scalable_pool(tainted), pod()) is Answer.UNKNOWN


def test_a_pool_at_its_limit_takes_nothing():
    assert check_new_node(scalable_pool(max_new_nodes=0), pod()) is Answer.NO


def test_a_resource_that_the_settings_leave_out_is_not_there():
    other = replace(pod(), requests={"example.com/fpga": 1})
    assert check_new_node(scalable_pool(), other) is Answer.NO


@pytest.mark.parametrize(
    ("ahead", "room"),
    [([], True), ([4, 4], True), ([4, 4, 1], True), ([4, 4, 4], False), ([3, 3, 3], True), ([3, 3, 3, 3], False)],
)
def test_those_ahead_get_theirs_first(ahead: list[int], room: bool):
    assert has_room_after(scalable_pool(), pod(1), ahead=[pod(gpus) for gpus in ahead]) is room


def test_those_who_cannot_use_a_new_node_take_nothing_of_it():
    assert has_room_after(
        scalable_pool(max_new_nodes=1), pod(4), ahead=[pod(8), pod(4, node_selector={PRODUCT: "A100"})]
    )


def test_a_pool_without_a_limit_has_room():
    assert has_room_after(scalable_pool(max_new_nodes=None), pod(4), ahead=[pod(4)] * 100)


def test_a_node_holds_only_so_many_pods():
    assert not has_room_after(
        scalable_pool(max_new_nodes=1, node_allocatable={GPU: 9, "pods": 2}), pod(1), ahead=[pod(1), pod(1)]
    )


def chosen(**labels: tuple[str, ...]) -> ScalableNodePool:
    """Return a pool whose machines are picked to fit the pods."""
    named = {PRODUCT if key == "product" else key: values for key, values in labels.items()}
    return ScalableNodePool(
        name="p", minutes=None, node_allocatable={}, max_new_nodes=None, labels=named, machines=MachineConstraints()
    )


@pytest.mark.parametrize(
    ("scalable_pool", "gpu", "expected"),
    [
        (chosen(product=("T4", "L4")), T4, True),
        (chosen(product=("L4",)), T4, False),
        (chosen(zone=("a",)), T4, False),
        (chosen(product=("T4",)), replace(T4, match={}), False),
        (chosen(product=("T4",)), replace(T4, match={PRODUCT: ("T4",), "slice": ()}), False),
        (chosen(product=("T4",), slice=()), replace(T4, match={PRODUCT: ("T4",), "slice": ()}), True),
        (chosen(product=("T4",)), replace(T4, resource="nvidia.com/mig-1g.5gb"), False),
        (chosen(product=("T4",)), replace(T4, match={}, members=(T4,)), True),
        (chosen(product=("T4",)), None, False),
    ],
)
def test_labels_that_go_with_a_type_tell_of_its_gpus(
    scalable_pool: ScalableNodePool, gpu: GPUType | None, expected: bool
):
    wanted = replace(pod(), requests={(gpu or T4).resource: 1})
    assert (check_new_node(scalable_pool, wanted, gpu=gpu) is Answer.YES) is expected


@pytest.mark.parametrize(
    ("scalable_pool", "expected"),
    [
        (chosen(), True),
        (chosen(product=("T4",)), True),
        (chosen(product=("L4",)), False),
        (replace(chosen(), machines=MachineConstraints(limits={GPU: 0})), False),
        (replace(chosen(), machines=None), False),
    ],
)
def test_a_pool_may_bring_gpus_that_it_does_not_rule_out(scalable_pool: ScalableNodePool, expected: bool):
    assert may_add_gpu_type(scalable_pool, T4) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod(gpus=8, cpu=10**6), Answer.YES),
        (pod(node_selector={"zone": "a"}), Answer.YES),
        (pod(node_selector={"zone": "b"}), Answer.NO),
        (pod(node_selector={"rack": "1"}), Answer.UNKNOWN),
        (pod(volume_terms=IN_ZONE_A), Answer.YES),
        (replace(pod(), requests={"example.com/fpga": 1}), Answer.UNKNOWN),
    ],
)
def test_a_machine_is_picked_among_those_that_there_may_be(wanted: Pod, expected: Answer):
    assert check_new_node(chosen(product=("T4",), zone=("a", "c")), wanted, gpu=T4) is expected


def test_those_ahead_take_machines_of_their_own():
    scalable_pool = replace(chosen(), machines=MachineConstraints(limits={GPU: 8}, remaining={GPU: 3}))
    assert [has_room_after(scalable_pool, pod(1), ahead=[pod(1)] * number) for number in range(4)] == [
        True,
        True,
        True,
        False,
    ]
