from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import get_object_name
from gpuspawner.cli.doctor.pod_health import find_hub_trouble, list_live_hub_pods
from tests.unit.cli.doctor.cases import NOW, named


def ago(seconds: int) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def condition(kind: str, status: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, **more}


def pod(name: str, phase: str, *, ready: str = "", leaving: bool = False) -> dict[str, Any]:
    found = named(name, status={"phase": phase, "conditions": [condition("Ready", ready)] if ready else []})
    if leaving:
        found["metadata"]["deletionTimestamp"] = ago(0)
    return found


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], []),
        ([pod("a", "Failed")], ["a"]),
        ([pod("a", "Failed"), pod("b", "Running", ready="True")], ["b"]),
        ([pod("a", "Succeeded"), pod("b", "Pending")], ["b"]),
        ([pod("a", "Running", ready="True", leaving=True), pod("b", "Running")], ["b"]),
        ([pod("a", "Running", leaving=True)], ["a"]),
        ([pod("a", "Pending"), pod("b", "Running", ready="False"), pod("c", "Running", ready="True")], ["c", "b", "a"]),
    ],
)
def test_pods_that_are_over_are_not_the_hub_where_there_is_another(pods: list[Any], expected: list[str]):
    assert list(map(get_object_name, list_live_hub_pods(pods))) == expected


UNPLACED = condition("PodScheduled", "False", reason="Unschedulable", message="0/3 nodes are available: taints.")


@pytest.mark.parametrize(
    ("phase", "conditions", "expected"),
    [
        ("Running", [condition("Ready", "True", lastTransitionTime=ago(900))], ""),
        ("Running", [condition("Ready", "False", lastTransitionTime=ago(60))], ""),
        ("Running", [condition("Ready", "False", lastTransitionTime=ago(310))], "not Ready for 5 minutes"),
        ("Running", [condition("Ready", "False")], ""),
        ("Pending", [condition("Ready", "False", lastTransitionTime=ago(310))], "Pending for 5 minutes"),
        ("Pending", [UNPLACED], "Unschedulable, 0/3 nodes are available: taints"),
        ("Pending", [{**UNPLACED, "message": ""}], "Unschedulable, no node takes it"),
        ("Pending", [{**UNPLACED, "reason": "SchedulingGated"}], ""),
        ("Succeeded", [], "it has ended"),
        ("Failed", [], "it has ended"),
        ("", None, ""),
    ],
)
def test_the_reason_why_a_hub_serves_no_user_is_reported(phase: str, conditions: Any, expected: str):
    assert find_hub_trouble(named("h", status={"phase": phase, "conditions": conditions}), now=NOW) == expected


def test_a_pod_that_no_kubelet_took_is_as_old_as_itself():
    waiting: dict[str, Any] = {"metadata": {"creationTimestamp": ago(200)}, "status": {"phase": "Pending"}}
    assert find_hub_trouble(waiting, now=NOW) == "Pending for 3 minutes"


def test_what_its_containers_tell_goes_first():
    status = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
    assert find_hub_trouble(named("h", status=status), now=NOW) == "ImagePullBackOff"
