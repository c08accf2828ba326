from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.dra import ClusterDevices, NodeDevices
from gpuspawner.core.cluster.model import HostPort, Node, Pod, PodAffinityTerm, PodConstraints
from gpuspawner.core.cluster.node_groups import NodeGrouping
from gpuspawner.core.cluster.state import Occupancy
from gpuspawner.core.cluster.volumes import ClusterVolumes, Volume

HTTP = HostPort("0.0.0.0", "TCP", 80)
APART = PodAffinityTerm(topology_key="zone", selector=(), namespaces=frozenset({"n"}))
DEMANDS = [PodConstraints(), PodConstraints(host_ports=frozenset({HTTP})), PodConstraints(anti_affinity=(APART,))]
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
    priority=st.integers(-1, 0),
    claims=st.sampled_from([(), (), ("x",), ("x", "y")]),
    constraints=st.sampled_from(DEMANDS),
    nominated_node=st.sampled_from([None, "a"]),
)
GONE_NODES = st.sampled_from("abc")
GONE_PODS = st.tuples(st.sampled_from(["m", "n"]), st.sampled_from("pqr"))
ON_NODES = st.builds(
    NodeDevices,
    capacity=st.just({"gpu": 3}),
    allocatable=st.just({"gpu": 2}),
    claimed=st.sampled_from([{}, {"gpu": 1}]),
    uncounted=st.sampled_from([frozenset(), frozenset({"gpu"})]),
)
DEVICES = st.builds(
    ClusterDevices,
    nodes=st.dictionaries(st.sampled_from(["a", "b", "unknown"]), ON_NODES),
    on_unknown_nodes=st.sampled_from([frozenset(), frozenset(), frozenset({"cpu", "nic"})]),
)
DISKS = st.sampled_from([Volume("disk", "1"), Volume("disk", "2")])
VOLUMES = st.builds(
    lambda limits, **known: ClusterVolumes(limits=limits, drivers=frozenset("disk" for _ in limits), **known),
    limits=st.dictionaries(st.sampled_from("ab"), st.fixed_dictionaries({"disk": st.integers(0, 2)})),
    of_claims=st.dictionaries(st.tuples(st.sampled_from("mn"), st.sampled_from("xy")), DISKS),
    attached=st.dictionaries(st.sampled_from("ab"), st.frozensets(DISKS, min_size=1)),
)
FLOORS = (None, 0)
CHANGES = st.lists(NODES | PODS | PODS | DEVICES | VOLUMES | GONE_NODES | GONE_PODS, min_size=4, max_size=30)


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
        case ClusterDevices():
            occupancy.put_devices(what)
        case ClusterVolumes():
            occupancy.put_volumes(what)
        case str():
            occupancy.remove_node(what)
        case (namespace, name):
            occupancy.remove_pod(namespace, name)


def facts(occupancy: Occupancy) -> dict[str, Any]:
    """Return every answer of the state, in an order that does not depend on the past."""
    return {
        "nodes": occupancy.nodes,
        "pods": sorted(occupancy.iter_pods(), key=lambda each: (each.namespace, each.name)),
        "waiting": sorted(occupancy.pending_pods, key=lambda each: (each.namespace, each.name)),
        "nominated": sorted(occupancy.nominated_pods, key=lambda each: (each.namespace, each.name)),
        "namespaces": sorted(occupancy.namespaces),
        "volumes": occupancy.volumes,
        "requested": {
            (name, floor): dict(occupancy.get_requested(name, floor))
            for name in ("a", "b", "unknown")
            for floor in FLOORS
        },
        "free": {each.name: dict(occupancy.get_free(each.name)) for each in occupancy.nodes},
        "ports": {name: set(occupancy.list_host_ports(name)) for name in ("a", "b", "unknown")},
        "guards": {term: dict(nodes) for term, nodes in occupancy.anti_affinity_index.iter_terms("n")},
        "groups": sorted(sorted(group) for group in occupancy.node_groups.group_nodes(NodeGrouping(values=("zone",)))),
    }


@given(CHANGES)
def test_any_order_of_changes_leads_to_what_is_left(changes: list[Any]):
    occupancy = Occupancy()
    nodes: dict[str, Node] = {}
    pods: dict[tuple[str, str], Pod] = {}
    devices, volumes = ClusterDevices(), ClusterVolumes()
    for what in changes:
        facts(occupancy)
        change(occupancy, what)
        match what:
            case ClusterDevices():
                devices = what
            case ClusterVolumes():
                volumes = what
            case Node():
                nodes[what.name] = what
            case Pod():
                pods[what.namespace, what.name] = what
            case str():
                nodes.pop(what, None)
            case (namespace, name):
                pods.pop((namespace, name), None)
    expected = Occupancy.build(nodes.values(), pods.values())
    expected.put_devices(devices)
    expected.put_volumes(volumes)
    assert facts(occupancy) == facts(expected)


@given(st.lists(NODES, max_size=4), st.lists(PODS, max_size=6), PODS)
def test_another_pod_frees_nothing(nodes: list[Node], pods: list[Pod], another: Pod):
    occupancy = Occupancy.build(nodes, pods)
    occupancy.remove_pod(another.namespace, another.name)
    before = {each.name: dict(occupancy.get_free(each.name)) for each in occupancy.nodes}
    occupancy.put_pod(another)
    for name, amounts in before.items():
        for resource, free in occupancy.get_free(name).items():
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


def test_the_nodes_are_known_on_which_something_changed():
    occupancy = Occupancy.build([node("a"), node("b"), node("c")], [pod("p", "a")])
    mark = occupancy.amount_changes
    assert occupancy.find_changed_nodes(mark) == frozenset()
    occupancy.put_pod(pod("q", "b", cpu=1))
    occupancy.put_pod(pod("waiting", None))
    occupancy.remove_pod("n", "q")
    assert occupancy.find_changed_nodes(mark) == {"b"}
    for number in range(1000):
        occupancy.put_pod(pod("r", "c", cpu=number))
    assert occupancy.find_changed_nodes(mark) is None


def test_more_promised_than_there_is_leaves_nothing_and_not_less():
    assert Occupancy.build([node("a", gpu=3)], [pod("p", "a", gpu=4)]).get_free("a") == {"gpu": 0}


def test_devices_are_there_and_taken_beside_what_pods_request():
    occupancy = Occupancy.build([node("a", cpu=9), node("b", gpu=4)], [pod("p", "a", cpu=2), pod("q", "b", gpu=1)])
    some = NodeDevices(capacity={"gpu": 8}, allocatable={"gpu": 7}, claimed={"gpu": 3})
    occupancy.put_devices(ClusterDevices(nodes={"a": some, "b": some, "elsewhere": some}))
    assert (occupancy.get_free("a"), occupancy.get_free("b")) == ({"cpu": 7, "gpu": 4}, {"gpu": 3})
    assert occupancy.get_requested("a") == {"pods": 1, "cpu": 2, "gpu": 3}
    occupancy.put_devices(ClusterDevices())
    assert (occupancy.get_free("a"), occupancy.get_requested("a")) == ({"cpu": 7}, {"pods": 1, "cpu": 2})


EIGHT = NodeDevices(capacity={"gpu": 8}, allocatable={"gpu": 8}, claimed={"gpu": 1})
"""Eight devices of a DRA driver, one of which a claim holds."""


def test_where_a_driver_offers_devices_only_claims_hold_them():
    """kube-scheduler leaves such a resource to DRA, whatever pods request (fit.go, ``shouldDelegateResourceToDRA``)."""
    of_the_plugin = pod("p", "a", gpu=4, cpu=1)  # the device plugin is gone, and the pod still runs
    occupancy = Occupancy.build([node("a", cpu=9, gpu=0)], [of_the_plugin])
    occupancy.put_devices(ClusterDevices(nodes={"a": EIGHT}))
    assert occupancy.get_requested("a") == {"pods": 1, "cpu": 1, "gpu": 1}
    occupancy.put_pod(pod("q", "a", gpu=2))
    occupancy.remove_pod("n", "p")
    assert (occupancy.get_requested("a"), occupancy.get_free("a")) == ({"pods": 1, "gpu": 1}, {"cpu": 9, "gpu": 7})


def test_a_preemption_frees_no_devices_of_a_driver():
    occupancy = Occupancy.build([node("a", cpu=9, gpu=0)], [replace(pod("p", "a", gpu=2, cpu=4), priority=-10)])
    occupancy.put_devices(ClusterDevices(nodes={"a": EIGHT}))
    assert occupancy.get_requested("a", 0) == {"gpu": 1}
    occupancy.put_pod(replace(pod("q", "a", gpu=2, cpu=1), priority=0))
    assert occupancy.get_requested("a", 0) == {"pods": 1, "cpu": 1, "gpu": 1}


def test_once_a_device_plugin_has_registered_the_pods_of_the_driver_hold_its_devices():
    """kube-scheduler counts what they request, although a claim holds other devices for them."""
    occupancy = Occupancy.build([node("a", gpu=0)], [pod("p", "a", gpu=2)])
    occupancy.put_devices(ClusterDevices(nodes={"a": EIGHT}))
    occupancy.put_node(node("a", gpu=4))
    assert (occupancy.get_requested("a"), occupancy.get_free("a")) == ({"pods": 1, "gpu": 2}, {"gpu": 2})


def test_two_pods_may_have_taken_the_same_port():
    both = [
        Pod(name=name, namespace="n", node="a", constraints=PodConstraints(host_ports=frozenset({HTTP})))
        for name in ("p", "q")
    ]
    occupancy = Occupancy.build([], both)
    occupancy.remove_pod("n", "p")
    assert list(occupancy.list_host_ports("a")) == [HTTP]
    occupancy.remove_pod("n", "q")
    assert list(occupancy.list_host_ports("a")) == []
