"""Devices that only drivers of Dynamic Resource Allocation offer, and devices without their plugin or driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.dra import ClusterDevices, NodeDevices
from gpuspawner.core.cluster.model import Node, Taint
from gpuspawner.core.cluster.state import Inventory, Occupancy
from gpuspawner.core.verdict.verdict import Outcome, predict_verdict
from tests.unit.core.verdicts import (
    GIB,
    GPU,
    PRODUCT,
    T4,
    inventory,
    judged,
    node,
    pod,
)


def test_where_devices_cannot_be_counted_nothing_is_said_and_nothing_refused():
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10}
    uncounted = node(allocatable=has, capacity=has, uncounted=frozenset({GPU}))
    found = judged(pod(), uncounted)
    reason = "It depends on devices that can't be counted."
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, reason)
    assert judged(pod(), uncounted, node("m", 1), pods=(pod("a", on="m"),)).outcome is Outcome.UNKNOWN


SILENT = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10, GPU: 0}


@pytest.mark.parametrize("others", [(), ("m",)])
def test_a_node_whose_device_plugin_is_not_there_may_have_enough(others: tuple[str, ...]):
    others_of_four = (node(name) for name in others)
    found = judged(pod(gpus=8), node(allocatable=SILENT, capacity=SILENT), *others_of_four)
    assert (found.outcome, found.reason.endswith("devices that cannot be seen right now may change that.")) == (
        Outcome.UNKNOWN,
        True,
    )


def test_a_node_that_never_had_the_device_has_none():
    never_had = {name: number for name, number in SILENT.items() if name != GPU}
    assert judged(pod(), node(allocatable=never_had, capacity=never_had)).outcome is Outcome.NEVER


@pytest.mark.parametrize(
    "why_not", [{"labels": {PRODUCT: "L4"}}, {"taints": (Taint(key="team", effect="NoSchedule"),)}]
)
def test_what_a_silent_node_may_have_is_for_whom_the_node_is(why_not: dict[str, Any]):
    assert judged(pod(), node(allocatable=SILENT, capacity=SILENT, **why_not)).outcome is Outcome.NEVER


def test_devices_of_a_class_are_not_counted():
    asked = {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}}
    raw = {"metadata": {"name": "mine", "namespace": "s"}, "spec": {"containers": [{"resources": asked}]}}
    wanted = decode.decode_pod(raw)
    assert wanted is not None
    assert predict_verdict(wanted, inventory(node())).outcome is Outcome.UNKNOWN


def test_devices_of_a_driver_start_a_pod_or_make_it_wait():
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10}
    both = NodeDevices(capacity={GPU: 2}, allocatable={GPU: 2})
    occupancy = Occupancy.build([node(allocatable=has, capacity=has)], ())
    found = []
    for taken in (0, 1, 2):
        occupancy.put_devices(ClusterDevices(nodes={"n": replace(both, claimed={GPU: taken})}))
        judgement = predict_verdict(pod(), Inventory(nodes=occupancy.nodes, occupancy=occupancy, age_s=1.0), gpu=T4)
        found.append((judgement.outcome, judgement.places, judgement.reason))
    assert found == [(Outcome.NOW, 2, ""), (Outcome.NOW, 1, ""), (Outcome.WAITS, None, "All 2 are in use.")]


CPU_ONLY = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10}
BARE = node(allocatable=CPU_ONLY, capacity=CPU_ONLY)


@pytest.mark.parametrize(
    "changes", [{"unschedulable": True}, {"taints": (Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"),)}]
)
def test_devices_without_a_count_may_come_back_with_their_node(changes: dict[str, Any]):
    found = judged(pod(), replace(BARE, uncounted=frozenset({GPU}), **changes))
    assert (found.outcome, found.reason) == (Outcome.WAITS, "The nodes with a T4 take no new servers right now.")


@pytest.mark.parametrize("resources", [frozenset({GPU}), None])
@pytest.mark.parametrize("nodes", [(), (BARE,), (BARE, node("other", labels={PRODUCT: "L4"}))])
def test_devices_that_may_be_there_unseen_are_never_denied(nodes: tuple[Node, ...], resources: frozenset[str] | None):
    found = judged(pod(), *nodes, dra_resources=resources)
    reason = "There is no T4 in the cluster; devices that cannot be seen right now may change that."
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, reason)


def test_what_stands_for_no_device_is_denied():
    found = judged(pod(), BARE, dra_resources=frozenset({"amd.com/gpu"}))
    assert (found.outcome, found.reason) == (Outcome.NEVER, "There is no T4 in the cluster.")


@pytest.mark.parametrize("resources", [frozenset({GPU}), None])
def test_what_kubelet_counts_is_denied_beyond_that(resources: frozenset[str] | None):
    found = judged(pod(gpus=8), node(), dra_resources=resources)
    assert (found.outcome, found.reason) == (Outcome.NEVER, "No node has 8 × T4; the most on one node is 4.")


HUGE = 48


def of_a_driver(*nodes: Node, **devices: NodeDevices) -> Inventory:
    """Return a cluster whose nodes have only devices of a DRA driver."""
    has = {"cpu": 64_000, "memory": 256 * GIB, "pods": 10}
    occupancy = Occupancy.build([*nodes, *(node(name, allocatable=has, capacity=has) for name in devices)], ())
    occupancy.put_devices(ClusterDevices(nodes=devices))
    return Inventory(nodes=occupancy.nodes, occupancy=occupancy, age_s=1.0)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (32, (Outcome.NOW, "")),
        (33, (Outcome.NEVER, "No node has 33 × T4; the most on one node is 32.")),
    ],
)
def test_a_pod_gets_32_devices_of_drivers_at_most(gpus: int, expected: tuple[Outcome, str]):
    """``AllocationResultsMaxSize`` in resource.k8s.io; kube-scheduler makes one claim for the whole pod."""
    there = of_a_driver(n=NodeDevices(capacity={GPU: HUGE}, allocatable={GPU: HUGE}))
    found = predict_verdict(pod(gpus=gpus), there, gpu=T4, new_nodes=False)
    assert (found.outcome, found.reason) == expected


def test_the_limit_is_for_all_resources_of_drivers_together():
    nic = "example.com/nic"
    both = {GPU: HUGE, nic: HUGE}
    there = of_a_driver(n=NodeDevices(capacity=both, allocatable=both))
    wanted = [replace(pod(), requests={GPU: gpus, nic: 16, "cpu": 33_000}) for gpus in (16, 17)]
    assert [predict_verdict(each, there, gpu=T4, new_nodes=False).outcome for each in wanted] == [
        Outcome.NOW,
        Outcome.NEVER,
    ]


def test_of_device_plugins_a_pod_gets_more():
    there = of_a_driver(node("m", HUGE), n=NodeDevices(capacity={"x/y": 1}, allocatable={"x/y": 1}))
    assert predict_verdict(pod(gpus=40), there, gpu=T4, new_nodes=False).outcome is Outcome.NOW


def test_devices_of_drivers_without_a_count_have_the_limit_too():
    there = of_a_driver(n=NodeDevices(uncounted=frozenset({GPU})))
    wanted = [pod(gpus=gpus) for gpus in (32, 33)]
    assert [predict_verdict(each, there, gpu=T4, new_nodes=False).outcome for each in wanted] == [
        Outcome.UNKNOWN,
        Outcome.NEVER,
    ]
