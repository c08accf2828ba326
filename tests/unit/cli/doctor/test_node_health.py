from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.node_health import check_cordoned_nodes, check_node_conditions, check_nodes_ready
from tests.unit.cli.doctor.cases import codes, facts, named, node

CPU_ONLY = node("cpu", gpus=0, labels={}, ready=False, unschedulable=True)


def condition(kind: str, status: str, **more: str) -> list[Any]:
    return [named("n", status={"conditions": [{"type": kind, "status": status, **more}]})]


def test_a_node_with_gpus_that_is_not_ready_is_reported_with_the_reason():
    read = {ObjectKind.NODES: condition("Ready", "Unknown", reason="NodeStatusUnknown")}
    (found,) = check_nodes_ready(facts(node(ready=False), node("m"), CPU_ONLY, read=read))
    assert (found.severity.value, found.what) == ("warning", "Node n: not Ready (NodeStatusUnknown).")


def test_it_is_a_fault_where_no_other_is_left():
    assert codes(check_nodes_ready, facts(node(ready=False), CPU_ONLY)) == [("fault", "node-not-ready", ("n",))]


def test_a_cordoned_node_is_reported():
    assert codes(check_cordoned_nodes, facts(node(unschedulable=True), CPU_ONLY)) == [
        ("warning", "node-cordoned", ("n",))
    ]


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("AcceleratedHardwareReady", "False", "fault"),
        ("DiskPressure", "True", "warning"),
        ("DiskPressure", "False", None),
        ("Ready", "True", None),
    ],
)
def test_a_nodes_own_conditions_are_reported(kind: str, status: str, expected: str | None):
    found = codes(check_node_conditions, facts(read={ObjectKind.NODES: condition(kind, status)}))
    assert found == ([] if expected is None else [(expected, "node-in-trouble", ("n",))])


@pytest.mark.parametrize("rule", [check_nodes_ready, check_cordoned_nodes, check_node_conditions])
def test_nodes_without_gpus_are_ignored(rule: Any):
    read = {ObjectKind.NODES: [named("cpu", status={"conditions": [{"type": "DiskPressure", "status": "True"}]})]}
    assert codes(rule, facts(node(), CPU_ONLY, read=read)) == []
