from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.isolation_probe import (
    PROBE_LABEL,
    ProbeResult,
    build_probe_pod,
    choose_probe_nodes,
    parse_probe_results,
)
from tests.unit.cli.doctor.cases import T4, node


def test_one_node_of_each_kind_that_runs_pods_is_chosen():
    nodes = [
        node("a"),
        node("b"),
        node("other", gpus=2),
        node("cordoned", gpus=3, unschedulable=True),
        node("simulated", gpus=5, labels={**T4, "gpuspawner.jupyter.org/simulated": "true"}),
        node("cpu", gpus=0, labels={}),
    ]
    assert choose_probe_nodes(nodes) == ("a", "other")
    assert len(choose_probe_nodes([node(f"n{number}", gpus=number) for number in range(1, 20)])) == 5


def test_the_pod_asks_for_no_gpu_goes_to_the_node_and_ends_by_itself():
    pod: Any = build_probe_pod("n", name="probe-1", image="i", pull_policy="Never")
    spec = pod["spec"]
    assert (pod["metadata"]["labels"], spec["restartPolicy"], spec["activeDeadlineSeconds"]) == (
        {PROBE_LABEL: "true"},
        "Never",
        120,
    )
    assert {each["name"]: [one["value"] for one in each.get("env", [])] for each in spec["containers"]} == {
        "unset": [],
        "all": ["all"],
        "void": ["void"],
    }
    assert not [each for each in spec["containers"] if any("/" in key for key in each["resources"]["limits"])]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}


def ended(name: str, message: str, code: int = 0) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, "message": message, "reason": "Error"}}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"containerStatuses": [ended("all", "all\n /dev/nvidia0 /dev/nvidiactl\n"), ended("void", "void\n\n")]},
            (
                ProbeResult(node="n", way="all", variable="all", devices=("/dev/nvidia0", "/dev/nvidiactl")),
                ProbeResult(node="n", way="void", variable="void"),
            ),
        ),
        ({"containerStatuses": [ended("unset", "", 127)]}, (ProbeResult(node="n", way="unset", trouble="Error"),)),
        (
            {"containerStatuses": [{"name": "all", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
            (ProbeResult(node="n", way="all", trouble="ErrImagePull"),),
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]},
            (ProbeResult(node="n", way="unset", trouble="0/1 nodes"),),
        ),
        ({"reason": "OutOfcpu"}, (ProbeResult(node="n", way="unset", trouble="OutOfcpu"),)),
        ({}, (ProbeResult(node="n", way="unset", trouble="it was not started"),)),
    ],
)
def test_what_containers_saw_is_read_from_their_last_words(status: dict[str, Any], expected: tuple[ProbeResult, ...]):
    assert parse_probe_results({"status": status}, node="n") == expected
