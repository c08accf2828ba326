from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.node_health import (
    check_cordoned_nodes,
    check_node_conditions,
    check_nodes_ready,
    check_start_faults,
)
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


NO_DRIVER = "Error: failed to create containerd task: nvidia-container-cli: nvml error: driver not loaded: unknown"
OLD_DRIVER = "Error: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"
DAMAGED = 'Failed to pull image "quay.io/example/x:1": failed to unpack image: content digest sha256:0c18: not found'
ABSENT = 'Failed to pull image "nvcr.io/nvidia/nvidia-container-toolkit:1": not found'


def failure(message: str, host: str = "n", component: str = "kubelet") -> dict[str, Any]:
    return named("e", reason="Failed", message=message, source={"component": component, "host": host})


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([failure(NO_DRIVER)], [("warning", "node-faulty", ("n",))]),
        ([failure(NO_DRIVER), failure(NO_DRIVER, "m")], [("warning", "node-faulty", ("n", "m"))]),
        (
            [failure(OLD_DRIVER), failure(DAMAGED)],
            [("warning", "driver-too-old", ("n",)), ("warning", "node-faulty", ("n",))],
        ),
        ([failure(ABSENT)], []),
        ([failure(NO_DRIVER, component="other")], []),
        ([failure('Error: secret "x" not found')], []),
    ],
    ids=["driver", "two nodes", "two faults", "an image that does not exist", "another component", "a Secret"],
)
def test_a_node_that_could_not_start_a_server_is_named(events: list[Any], expected: list[Any]):
    assert codes(check_start_faults, facts(read={ObjectKind.FAILURE_EVENTS: events})) == expected


def test_the_finding_about_a_faulty_node_says_what_kubelet_wrote():
    (found,) = check_start_faults(facts(read={ObjectKind.FAILURE_EVENTS: [failure(f"{NO_DRIVER}\n{'x' * 9000}")]}))
    assert found.what.startswith(
        "Node n: containers do not get a device, because it or its driver is out of order. Kubelet writes: Error:"
        " failed to create containerd task: nvidia-container-cli: nvml error: driver not loaded: unknown xxx"
    )
    assert len(found.what) < 500
    assert found.fix.splitlines()[1:] == ["kubectl cordon n", "kubectl get pods -A --field-selector spec.nodeName=n"]
