from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.choices import can_scale_up, check_autoscaler, check_node_pools
from gpuspawner.cli.doctor.facts import ClusterFacts, ObjectKind
from tests.unit.cli.doctor.cases import T4, codes, facts, gpu_type, named, node

ALONE: dict[ObjectKind, list[Any]] = {ObjectKind.DEPLOYMENTS: [named("hub")]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(read=ALONE), False),
        (facts(), True),
        (facts(read={ObjectKind.DEPLOYMENTS: [named("my-aws-cluster-autoscaler")]}), True),
        (facts(read={**ALONE, ObjectKind.NODE_POOLS: [named("p")]}), True),
        (facts(node(labels={**T4, "cloud.google.com/gke-nodepool": "p"}), read=ALONE), True),
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
