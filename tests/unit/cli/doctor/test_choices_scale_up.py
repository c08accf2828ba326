from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.choices import (
    can_scale_up,
    check_autoscaler,
    check_new_nodes,
    check_node_groups,
    check_node_pools,
    check_types_exist,
)
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from tests.unit.cli.doctor.cases import T4, codes, facts, gpu_type, named, node

ALONE: dict[ObjectKind, list[Any]] = {ObjectKind.DEPLOYMENTS: [named("hub")]}
STATUS = named("cluster-autoscaler-status")
NO_STATUS = {**ALONE, ObjectKind.AUTOSCALER_STATUS: []}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(read=ALONE), False),
        (facts(), True),
        (facts(read={ObjectKind.DEPLOYMENTS: [named("my-aws-cluster-autoscaler")]}), True),
        (facts(read={**ALONE, ObjectKind.NODE_POOLS: [named("p")]}), True),
        (facts(node(labels={**T4, "cloud.google.com/gke-nodepool": "p"}), read=ALONE), True),
        (facts(node(labels={**T4, "lke.linode.com/pool-id": "1"}), read=ALONE), True),
        (facts(node(labels={**T4, "topology.kubernetes.io/region": "a"}), read=ALONE), True),
        (facts(node(labels={**T4, "topology.kubernetes.io/zone": "a"}), read=ALONE), False),
        (facts(read={**ALONE, ObjectKind.AUTOSCALER_STATUS: [STATUS]}), True),
        (facts(read={**ALONE, ObjectKind.AUTOSCALER_EVENTS: [named("e")]}), True),
    ],
)
def test_a_cluster_may_grow_where_something_is_there_for_it_or_cannot_be_seen(found: ClusterFacts, expected: bool):
    assert can_scale_up(found) is expected


def test_a_scale_up_without_an_autoscaler_is_a_warning():
    growing = {"max_nodes": 1, "gpus_per_node": 1, "minutes": 5}
    settings = {"gpus": {"t": gpu_type(scale_up=growing)}}
    assert codes(check_autoscaler, facts(settings=settings, read=ALONE)) == [("warning", "autoscaler-missing", ("t",))]
    assert codes(check_autoscaler, facts(settings=settings)) == []
    assert codes(check_autoscaler, facts(settings={"gpus": {"t": gpu_type()}}, read=ALONE)) == []


def pool(*, ready: str = "True", used: str = "0", **limits: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "message": "NodeClass not found."}
    return named(
        "p",
        spec={"limits": limits, "template": {"spec": {"requirements": []}}},
        status={"resources": dict.fromkeys(limits, used), "conditions": [condition]},
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pool(cpu="100"), []),
        (pool(), []),
        (pool(cpu="100", used="100"), [("warning", "nodepool-exhausted", ("p",))]),
        (pool(cpu="0"), [("warning", "nodepool-exhausted", ("p",))]),
        (pool(ready="False"), [("fault", "nodepool-not-ready", ("p",))]),
        ({}, []),
    ],
)
def test_pools_that_add_nothing_are_reported(found: dict[str, Any], expected: list[Any]):
    assert codes(check_node_pools, facts(read={ObjectKind.NODE_POOLS: [found]})) == expected


def test_the_reached_limit_and_its_cause_are_in_the_sentence():
    (spent,) = check_node_pools(facts(read={ObjectKind.NODE_POOLS: [pool(**{"nvidia.com/gpu": "2"}, used="2")]}))
    assert spent.what == "NodePool p has reached its limits (nvidia.com/gpu: 2)."
    assert """-p '{"spec": {"limits": {"nvidia.com/gpu": "MORE"}}}'""" in spent.fix
    (broken,) = check_node_pools(facts(read={ObjectKind.NODE_POOLS: [pool(ready="False")]}))
    assert broken.what == "NodePool p is not ready: NodeClass not found."


@pytest.mark.parametrize(
    ("settings", "read", "expected"),
    [
        pytest.param({}, NO_STATUS, [("note", "new-nodes-unlikely", ())], id="nothing adds nodes"),
        pytest.param({"new_nodes": "none"}, NO_STATUS, [], id="nothing adds nodes, as the settings say"),
        pytest.param({}, ALONE, [], id="the status of an autoscaler cannot be read"),
        pytest.param({}, {**ALONE, ObjectKind.AUTOSCALER_STATUS: [STATUS]}, [], id="an autoscaler"),
        pytest.param(
            {"new_nodes": "none"},
            {**ALONE, ObjectKind.AUTOSCALER_STATUS: [STATUS]},
            [("warning", "new-nodes-denied", ())],
            id="an autoscaler, and the settings say that none is there",
        ),
        pytest.param(
            {"gpus": {"t": gpu_type(new_nodes="none"), "u": gpu_type()}},
            {**ALONE, ObjectKind.AUTOSCALER_STATUS: [STATUS]},
            [("warning", "new-nodes-denied", ("t",))],
            id="an autoscaler, and a type that it may not add",
        ),
        pytest.param(
            {"new_nodes": "none"},
            {**NO_STATUS, ObjectKind.NODE_POOLS: [named("p")]},
            [],
            id="Karpenter, whose NodePools the hub reads",
        ),
    ],
)
def test_what_the_settings_say_of_new_nodes_is_compared_with_what_adds_nodes(
    settings: dict[str, Any], read: dict[ObjectKind, list[Any]], expected: list[Any]
):
    assert codes(check_new_nodes, facts(settings=settings, read=read)) == expected


@pytest.mark.parametrize(("new_nodes", "severity"), [("possible", "warning"), ("none", "fault")])
def test_a_type_without_a_node_is_a_fault_where_none_is_added(new_nodes: str, severity: str):
    settings = {"gpus": {"t": gpu_type(match={"pool": "x"}, new_nodes=new_nodes)}}
    found = facts(settings=settings, read={**ALONE, ObjectKind.AUTOSCALER_STATUS: [STATUS]})
    assert codes(check_types_exist, found) == [(severity, "type-without-node", ("t",))]


NODE_GROUPS = """nodeGroups:
- name: gpu
  health: {status: Healthy, cloudProviderTarget: 3, minSize: 0, maxSize: 3}
- name: core
  health: {status: Healthy, cloudProviderTarget: 1, minSize: 1, maxSize: 1}
- name: huge
  health: {status: Healthy, cloudProviderTarget: 0, minSize: 0, maxSize: 3}
  scaleUp: {status: Backoff}
"""


def test_node_groups_that_may_not_grow_are_named():
    status = {**STATUS, "data": {"status": NODE_GROUPS}}
    found = facts(read={ObjectKind.AUTOSCALER_STATUS: [status]})
    assert codes(check_node_groups, found) == [
        ("note", "node-group-full", ("gpu",)),
        ("warning", "node-group-failing", ("huge",)),
    ]
    full, failing = check_node_groups(found)
    assert (full.what, failing.what) == (
        "The cluster-autoscaler may not add nodes to gpu (3 of 3).",
        "The cluster-autoscaler reports trouble with huge (Backoff).",
    )
    assert codes(check_node_groups, facts(read={ObjectKind.AUTOSCALER_STATUS: [STATUS]})) == []
