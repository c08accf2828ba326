from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.model import GPUType, UnitKind
from gpuspawner.core.cluster.model import Node, Pod, PodConstraints, Taint
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.availability import (
    UNKNOWN_AVAILABILITY,
    Availability,
    AvailabilityCache,
    FreeShape,
    NodeShare,
    count_availability,
)

GIB = 1 << 30
GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.5gb"
PRODUCT = "nvidia.com/gpu.product"
T4 = GPUType(slug="t4", display_name="T4", resource=GPU, vendor="nvidia", match={PRODUCT: ("T4",)}, max_count=4)
A100 = replace(T4, slug="a100", match={PRODUCT: ("A100",)})
SLICE = replace(A100, slug="slice", resource=MIG, unit=UnitKind.MIG)
SHARE = NodeShare(7600 // 4, (32 * GIB - 32 * GIB * 5 // 100) // 4)
TEAM = Taint(key="team", effect="NoSchedule")


def node(name: str, gpus: int = 0, product: str = "T4", **changes: Any) -> Node:
    allocatable = {"cpu": 8000, "memory": 32 * GIB, "pods": 4, GPU: gpus}
    return replace(Node(name=name, labels={PRODUCT: product}, allocatable=allocatable, capacity=allocatable), **changes)


def pod(name: str, on: str | None, gpus: int = 0, **changes: Any) -> Pod:
    return replace(Pod(name=name, namespace="s", node=on, requests={"cpu": 1000, "memory": GIB, GPU: gpus}), **changes)


def found(*nodes: Node, pods: tuple[Pod, ...] = (), gpu: GPUType = T4, **options: Any) -> Availability:
    (one,) = count_availability([gpu], Inventory(occupancy=Occupancy.build(nodes, pods)), **options)
    return one


def test_everything_is_said_of_a_type():
    nodes = (node("a", 4), node("b", 2), node("c", 8, "A100"), node("d"))
    pods = (pod("1", "a", 3), pod("2", "c", 1), pod("3", None, 2))
    assert found(*nodes, pods=pods) == Availability(
        total=6,
        healthy=6,
        free=3,
        largest=2,
        waiting=2,
        shapes=(FreeShape(8000, 32 * GIB, 2),),
        largest_shapes=(FreeShape(8000, 32 * GIB, 4),),
        share=SHARE,
    )


def test_without_nodes_all_is_unknown():
    assert count_availability([T4], Inventory()) == (UNKNOWN_AVAILABILITY,)


def test_without_pods_what_is_free_is_unknown():
    (one,) = count_availability([T4], Inventory(nodes=(node("a", 4),)))
    assert one == Availability(total=4, healthy=4, largest_shapes=(FreeShape(8000, 32 * GIB, 4),), share=SHARE)


def test_slices_count_as_slices_beside_whole_cards():
    mixed = node("a", 2, "A100", allocatable={"cpu": 8000, "memory": GIB, "pods": 9, GPU: 2, MIG: 14})
    slices = found(mixed, gpu=SLICE, pods=(pod("1", "a", requests={MIG: 3}),))
    assert (slices.total, slices.free, found(mixed, gpu=A100).free) == (14, 11, 2)


def test_broken_units_are_there_but_not_healthy():
    broken = node("a", 3, capacity={GPU: 4})
    assert (found(broken).total, found(broken).healthy, found(broken).free) == (4, 3, 3)


@pytest.mark.parametrize(
    ("changes", "healthy"),
    [
        ({"unschedulable": True}, 4),
        ({"taints": (Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule"),)}, 4),
        ({"ready": False}, 0),
    ],
)
def test_a_node_that_takes_no_servers_for_now_has_units_and_none_free(changes: dict[str, Any], healthy: int):
    one = found(node("a", 4, **changes))
    assert (one.total, one.healthy, one.free, one.largest, one.shapes) == (4, healthy, 0, 0, ())


def test_a_node_that_holds_as_many_pods_as_it_may_has_nothing_free():
    one = found(node("a", 4), pods=tuple(pod(str(number), "a") for number in range(4)))
    assert (one.free, one.largest, one.shapes) == (0, 0, ())


def test_a_node_that_promised_too_much_takes_nothing_from_others():
    one = found(node("a", 1), node("b", 4), pods=(pod("1", "a", 4),))
    assert (one.free, one.largest) == (4, 4)


def test_cpu_and_memory_that_were_promised_twice_are_nothing():
    greedy = pod("1", "a", 1, requests={"cpu": 9000, "memory": 40 * GIB, GPU: 1})
    assert found(node("a", 4), pods=(greedy,)).shapes == (FreeShape(0, 0, 3),)


def test_nodes_that_change_are_counted_anew():
    occupancy = Occupancy.build(
        (node("a", 4),), (pod("1", None, 2, constraints=PodConstraints(node_selector={"zone": "b"})),)
    )
    inventory, cache = Inventory(occupancy=occupancy), AvailabilityCache()
    totals = []
    for labels in ({PRODUCT: "T4"}, {PRODUCT: "T4", "zone": "b"}, {PRODUCT: "A100"}):
        occupancy.put_node(node("a", 4, labels=labels))
        (one,) = count_availability([T4], inventory, cache=cache)
        totals.append((one.total, one.free, one.waiting))
    assert totals == [(4, 4, 0), (4, 4, 2), (0, 0, 2)]


@pytest.mark.parametrize(
    ("changes", "waiting"),
    [
        ({}, 2),
        ({"constraints": PodConstraints(node_selector={PRODUCT: "T4"})}, 2),
        ({"constraints": PodConstraints(node_selector={PRODUCT: "A100"})}, 0),
        ({"constraints": PodConstraints(is_gated=True)}, 0),
        ({"requests": {"cpu": 1}}, 0),
        ({"node": "a"}, 0),
    ],
)
def test_pods_wait_for_what_their_selector_allows(changes: dict[str, Any], waiting: int):
    assert found(node("a", 4), pods=(pod("1", None, 2, **changes),)).waiting == waiting


def test_without_device_plugins_the_number_of_gpus_is_unknown():
    silent = node("a", 0)
    never_had = replace(silent, allocatable={"cpu": 8000, "pods": 4}, capacity={"cpu": 8000, "pods": 4})
    assert found(silent) == UNKNOWN_AVAILABILITY
    assert found(never_had).total == 0
    assert found(silent, node("b", 4)).total == 4


def test_what_a_runtime_class_may_open_is_not_known():
    reserved = node("a", 4, taints=(TEAM,))
    assert found(reserved).total == 0
    assert found(reserved, gpu=replace(T4, runtime_class="nvidia")) == UNKNOWN_AVAILABILITY


cluster = st.tuples(
    st.lists(
        st.builds(
            lambda gpus, broken, ready, cordoned, reserved: {
                "allocatable": {"cpu": 8000, "memory": 32 * GIB, "pods": 3, GPU: gpus},
                "capacity": {GPU: gpus + broken},
                "ready": ready,
                "unschedulable": cordoned,
                "taints": (TEAM,) if reserved else (),
            },
            st.integers(0, 4),
            st.integers(0, 2),
            *(st.sampled_from(values) for values in ([True, True, False], [False, False, True], [False, False, True])),
        ),
        max_size=4,
    ),
    st.lists(st.tuples(st.sampled_from(["0", "1", "2", "3", None]), st.integers(0, 3)), max_size=8),
)


@given(cluster)
def test_numbers_are_ordered_and_another_pod_never_frees_anything(
    drawn: tuple[list[dict[str, Any]], list[tuple[str | None, int]]],
):
    kinds, asked = drawn
    nodes = [node(str(number), **changes) for number, changes in enumerate(kinds)]
    occupancy, cache = Occupancy.build(nodes, ()), AvailabilityCache()
    before: Availability | None = None
    for number, (on, gpus) in enumerate([(None, 0), *asked]):
        occupancy.put_pod(pod(str(number), on, gpus))
        (one,) = count_availability([T4], Inventory(occupancy=occupancy), cache=cache)
        if one == UNKNOWN_AVAILABILITY:
            # Their device plugins may be about to say how many there are.
            assert [each for each in nodes if each.capacity[GPU] and TEAM not in each.taints] == []
            return
        assert 0 <= one.largest <= one.free <= one.healthy <= one.total
        assert one.largest == max((shape.gpu_count for shape in one.shapes), default=0)
        assert all(min(shape.cpu_millis, shape.memory_bytes, shape.gpu_count - 1) >= 0 for shape in one.shapes)
        if before is not None:
            assert (one.free <= before.free, one.largest <= before.largest) == (True, True)
            assert all(any(old.covers(shape) for old in before.shapes) for shape in one.shapes)
        before = one


@given(cluster)
def test_the_order_of_the_nodes_does_not_matter(drawn: tuple[list[dict[str, Any]], list[tuple[str | None, int]]]):
    nodes = tuple(node(str(number), **changes) for number, changes in enumerate(drawn[0]))
    pods = tuple(pod(str(number), on, gpus) for number, (on, gpus) in enumerate(drawn[1]))
    kept = Inventory(occupancy=Occupancy.build(reversed(nodes), pods))
    assert count_availability([T4], Inventory(occupancy=Occupancy.build(nodes, pods))) == count_availability([T4], kept)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("pqr"), st.sampled_from([None, "a", "b", "c", "gone"]), st.integers(0, 3), st.booleans()
        ),
        max_size=12,
    )
)
def test_after_each_change_it_is_what_a_count_from_scratch_gives(changes: list[tuple[str, str | None, int, bool]]):
    nodes = (node("a", 4), node("b", 4, "A100"), node("c", 2), node("d", 4))
    kept, cache = Occupancy.build(nodes, ()), AvailabilityCache()
    pods: dict[str, Pod] = {}
    for name, on, gpus, is_asked in changes:
        if gpus:
            pods[name] = pod(name, on, gpus)
            kept.put_pod(pods[name])
        else:
            pods.pop(name, None)
            kept.remove_pod("s", name)
        if is_asked:
            fresh = Occupancy.build(nodes, pods.values())
            kept_up = count_availability([T4, A100], Inventory(occupancy=kept), cache=cache)
            assert kept_up == count_availability([T4, A100], Inventory(occupancy=fresh))


def test_very_many_changes_between_two_questions_are_all_counted():
    occupancy = Occupancy.build([node("a", 4), node("b", 4, "A100")], ())
    inventory, cache = Inventory(occupancy=occupancy), AvailabilityCache()
    assert [each.free for each in count_availability([T4, A100], inventory, cache=cache)] == [4, 4]
    occupancy.put_pod(pod("first", "a", 3))
    for number in range(1000):
        occupancy.put_pod(pod(f"{number}", "b"))
        occupancy.remove_pod("s", f"{number}")
    assert [each.free for each in count_availability([T4, A100], inventory, cache=cache)] == [1, 4]


def test_devices_without_a_count_are_unknown_and_not_left_out():
    uncounted = node("b", allocatable={"cpu": 8000, "pods": 4}, capacity={}, uncounted=frozenset({GPU}))
    assert found(node("a", 4), uncounted) == UNKNOWN_AVAILABILITY
    assert found(node("a", 4), uncounted, gpu=replace(T4, match={PRODUCT: ("other",)})).total == 0
    assert found(node("a", 4), replace(uncounted, uncounted=frozenset({MIG}))).free == 4


def test_what_placeholders_hold_is_free_to_servers_of_higher_priority():
    pods = (
        pod("user", "a", 1),
        pod("low", "a", 2, priority=-10),
        pod("next", None, 1),
        pod("l", None, 4, priority=-10),
    )
    counts = [found(node("a", 4), pods=pods, priority=priority) for priority in (None, -10, 0, 1)]
    assert [(each.free, each.largest, each.waiting) for each in counts] == [(1, 1, 5), (1, 1, 5), (3, 3, 1), (4, 4, 0)]
    assert counts[2].shapes == (FreeShape(7000, 31 * GIB, 3),)
