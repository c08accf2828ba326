from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.devices import Devices, NodeDevices
from gpuspawner.core.cluster.model import Demands, HostPort, Node, Pod, PodTerm
from gpuspawner.core.cluster.node_table import Layout
from gpuspawner.core.cluster.occupancy import Occupancy

HTTP = HostPort("0.0.0.0", "TCP", 80)
APART = PodTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))
DEMANDS = [Demands(), Demands(host_ports=frozenset({HTTP})), Demands(anti_affinity=(APART,))]
NODES = st.builds(
    Node,
    name=st.sampled_from("abc"),
    labels=st.sampled_from([{}, {"zone": "x"}, {"zone": "y"}]),
    allocatable=st.fixed_dictionaries({"cpu": st.integers(0, 9), "pods": st.integers(0, 3)}),
)
PODS = st.builds(
    Pod,
    name=st.sampled_from("pqr"),
    namespace=st.sampled_from(["m", "n"]),
    node=st.sampled_from(["a", "b", "unknown", None]),
    requests=st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 9)),
    demands=st.sampled_from(DEMANDS),
    nominated=st.sampled_from([None, "a"]),
)
GONE_NODES = st.sampled_from("abc")
GONE_PODS = st.tuples(st.sampled_from(["m", "n"]), st.sampled_from("pqr"))
ON_NODES = st.builds(
    NodeDevices,
    capacity=st.just({"gpu": 3}),
    allocatable=st.just({"gpu": 2}),
    taken=st.sampled_from([{}, {"gpu": 1}]),
    uncounted=st.sampled_from([frozenset(), frozenset({"gpu"})]),
)
DEVICES = st.builds(
    Devices,
    nodes=st.dictionaries(st.sampled_from(["a", "b", "unknown"]), ON_NODES),
    anywhere=st.sampled_from([frozenset(), frozenset(), frozenset({"cpu", "nic"})]),
)
RESOURCES = ("cpu", "gpu", "pods")
CHANGES = st.lists(NODES | PODS | PODS | DEVICES | GONE_NODES | GONE_PODS, min_size=4, max_size=30)


def node(name: str, **allocatable: int) -> Node:
    return Node(name=name, allocatable=allocatable)


def pod(name: str, on: str | None, **requests: int) -> Pod:
    return Pod(name=name, namespace="n", node=on, requests=requests)


def change(occupancy: Occupancy, what: Any) -> None:
    match what:
        case Node():
            occupancy.put_node(what)
        case Pod():
            occupancy.put_pod(what)
        case Devices():
            occupancy.put_devices(what)
        case str():
            occupancy.drop_node(what)
        case (namespace, name):
            occupancy.drop_pod(namespace, name)


def facts(occupancy: Occupancy) -> dict[str, Any]:
    """Return everything that can be asked, in an order that does not depend on the past."""
    table = occupancy.table
    return {
        "nodes": occupancy.nodes,
        "pods": sorted(occupancy.pods(), key=lambda each: (each.namespace, each.name)),
        "waiting": sorted(occupancy.waiting, key=lambda each: (each.namespace, each.name)),
        "nominated": sorted(occupancy.nominated, key=lambda each: (each.namespace, each.name)),
        "namespaces": sorted(occupancy.namespaces),
        "requested": {name: dict(occupancy.requested(name)) for name in ("a", "b", "unknown")},
        "free": {each.name: dict(occupancy.free(each.name)) for each in occupancy.nodes},
        "ports": {name: set(occupancy.ports_in_use(name)) for name in ("a", "b", "unknown")},
        "guards": {term: dict(nodes) for term, nodes in occupancy.guards.that_look_in("n")},
        "columns": {
            (table.at(row).name, resource): table.free(resource)[row]
            for pool in table.pools(Layout())
            for row in pool.rows
            for resource in RESOURCES
        },
    }


@given(CHANGES)
def test_any_order_of_changes_leads_to_what_is_left(changes: list[Any]):
    occupancy = Occupancy()
    for resource in RESOURCES:
        occupancy.table.free(resource)
    nodes: dict[str, Node] = {}
    pods: dict[tuple[str, str], Pod] = {}
    devices = Devices()
    for what in changes:
        change(occupancy, what)
        match what:
            case Devices():
                devices = what
            case Node():
                nodes[what.name] = what
            case Pod():
                pods[what.namespace, what.name] = what
            case str():
                nodes.pop(what, None)
            case (namespace, name):
                pods.pop((namespace, name), None)
    expected = Occupancy.of(nodes.values(), pods.values())
    expected.put_devices(devices)
    assert facts(occupancy) == facts(expected)


@given(st.lists(NODES, max_size=4), st.lists(PODS, max_size=6), PODS)
def test_another_pod_frees_nothing(nodes: list[Node], pods: list[Pod], another: Pod):
    occupancy = Occupancy.of(nodes, pods)
    occupancy.drop_pod(another.namespace, another.name)
    before = {each.name: dict(occupancy.free(each.name)) for each in occupancy.nodes}
    occupancy.put_pod(another)
    for name, amounts in before.items():
        for resource, free in occupancy.free(name).items():
            assert 0 <= free <= amounts[resource]


@given(CHANGES)
def test_the_generation_grows_exactly_when_something_changed(changes: list[Any]):
    occupancy = Occupancy()
    for what in changes:
        before, generation, nodes_generation = facts(occupancy), occupancy.generation, occupancy.nodes_generation
        change(occupancy, what)
        after = facts(occupancy)
        assert (occupancy.generation > generation) == (after != before)
        assert (occupancy.nodes_generation > nodes_generation) == (after["nodes"] != before["nodes"])


def test_a_pod_counts_as_soon_as_its_node_appears():
    occupancy = Occupancy.of([], [pod("p", "a", cpu=300)])
    assert occupancy.free("a") == {}
    occupancy.put_node(node("a", cpu=1000, pods=10))
    assert occupancy.free("a") == {"cpu": 700, "pods": 9}


def test_a_pod_that_is_being_deleted_still_holds_its_resources():
    leaving = Pod(name="p", namespace="n", node="a", requests={"cpu": 300}, deleting=True)
    assert Occupancy.of([node("a", cpu=1000)], [leaving]).free("a") == {"cpu": 700}


def test_a_waiting_pod_holds_nothing():
    waiting = pod("p", None, cpu=300)
    occupancy = Occupancy.of([node("a", cpu=1000)], [waiting])
    assert (occupancy.waiting, occupancy.free("a")) == ((waiting,), {"cpu": 1000})
    occupancy.put_pod(pod("p", "a", cpu=300))
    assert (occupancy.waiting, occupancy.free("a")) == ((), {"cpu": 700})


def test_a_changed_pod_replaces_the_old_one():
    occupancy = Occupancy.of([node("a", cpu=1000)], [pod("p", "a", cpu=300)])
    occupancy.put_pod(pod("p", "a", cpu=500, gpu=1))
    assert occupancy.requested("a") == {"pods": 1, "cpu": 500, "gpu": 1}


def test_nothing_is_left_of_pods_that_left():
    occupancy = Occupancy.of([node("a", cpu=1)], [pod("p", "a", cpu=0, gpu=1), pod("q", "a", cpu=0)])
    occupancy.drop_pod("n", "p")
    assert occupancy.requested("a") == {"pods": 1}
    occupancy.drop_pod("n", "q")
    assert (occupancy.requested("a"), list(occupancy.namespaces)) == ({}, [])


def test_the_columns_follow_pods_that_come_and_go():
    occupancy = Occupancy.of([node("a", cpu=9, pods=3)], [])
    columns = occupancy.table.free("cpu"), occupancy.table.free("pods")
    occupancy.put_pod(pod("p", "a", cpu=2))
    assert columns == ([7], [2])
    occupancy.put_pod(pod("p", "a", cpu=5))
    assert columns == ([4], [2])
    occupancy.drop_pod("n", "p")
    assert columns == ([9], [3])


def test_more_promised_than_there_is_leaves_nothing_and_not_less():
    assert Occupancy.of([node("a", gpu=3)], [pod("p", "a", gpu=4)]).free("a") == {"gpu": 0}


def test_devices_are_there_and_taken_beside_what_pods_request():
    occupancy = Occupancy.of([node("a", cpu=9), node("b", gpu=4)], [pod("p", "a", cpu=2), pod("q", "b", gpu=1)])
    columns = occupancy.table.free("gpu")
    some = NodeDevices(capacity={"gpu": 8}, allocatable={"gpu": 7}, taken={"gpu": 3})
    occupancy.put_devices(Devices(nodes={"a": some, "b": some, "elsewhere": some}))
    assert (occupancy.free("a"), occupancy.free("b"), columns) == ({"cpu": 7, "gpu": 4}, {"gpu": 3}, [4, 3])
    assert occupancy.requested("a") == {"pods": 1, "cpu": 2, "gpu": 3}
    occupancy.put_devices(Devices())
    assert (occupancy.free("a"), occupancy.requested("a"), columns) == ({"cpu": 7}, {"pods": 1, "cpu": 2}, [0, 3])


def test_claims_that_change_are_no_change_of_nodes():
    occupancy = Occupancy.of([node("a")], [])
    one = NodeDevices(capacity={"gpu": 1}, allocatable={"gpu": 1})
    occupancy.put_devices(Devices(nodes={"a": one}))
    columns, before, nodes_before = occupancy.table.free("gpu"), occupancy.generation, occupancy.nodes_generation
    occupancy.put_devices(Devices(nodes={"a": replace(one, taken={"gpu": 1})}))
    assert (occupancy.generation > before, occupancy.nodes_generation == nodes_before) == (True, True)
    assert columns == [0]


def test_nothing_is_taken_of_a_node_that_left():
    occupancy = Occupancy.of([node("a")], [])
    occupancy.put_devices(
        Devices(nodes={"a": NodeDevices(capacity={"gpu": 1}, allocatable={"gpu": 1}, taken={"gpu": 1})})
    )
    occupancy.drop_node("a")
    assert occupancy.requested("a") == {}
    occupancy.put_node(node("a"))
    assert (occupancy.requested("a"), occupancy.free("a")) == ({"gpu": 1}, {"gpu": 0})


def test_nodes_are_sorted_by_name():
    occupancy = Occupancy.of([node("b"), node("c"), node("a")], [])
    assert [each.name for each in occupancy.nodes] == ["a", "b", "c"]
    occupancy.drop_node("b")
    assert [each.name for each in occupancy.nodes] == ["a", "c"]


def test_two_pods_may_have_taken_the_same_port():
    both = [
        Pod(name=name, namespace="n", node="a", demands=Demands(host_ports=frozenset({HTTP}))) for name in ("p", "q")
    ]
    occupancy = Occupancy.of([], both)
    occupancy.drop_pod("n", "p")
    assert list(occupancy.ports_in_use("a")) == [HTTP]
    occupancy.drop_pod("n", "q")
    assert list(occupancy.ports_in_use("a")) == []


@pytest.mark.parametrize("namespace", ["n", "elsewhere"])
def test_pods_are_found_by_namespace(namespace: str):
    occupancy = Occupancy.of([], [pod("p", "a")])
    assert list(occupancy.pods(namespace)) == ([pod("p", "a")] if namespace == "n" else [])
