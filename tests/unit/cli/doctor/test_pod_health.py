from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gpuspawner.cli.doctor.pod_health import find_pod_trouble
from tests.unit.cli.doctor.cases import NOW

CRASHED = {"terminated": {"exitCode": 1}}


def running(*, for_s: int, restarts: int) -> dict[str, Any]:
    started = (NOW - timedelta(seconds=for_s)).isoformat().replace("+00:00", "Z")
    return {"state": {"running": {"startedAt": started}}, "lastState": CRASHED, "restartCount": restarts}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, "CrashLoopBackOff"),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, ""),
        ({"state": CRASHED}, "Error"),
        ({"state": {"terminated": {"exitCode": 0}}}, ""),
        (running(for_s=10, restarts=2), "crashes again and again"),
        (running(for_s=10, restarts=1), ""),
        (running(for_s=1000, restarts=9), ""),
        ({"state": {"running": {"startedAt": "no time"}}, "lastState": CRASHED, "restartCount": 3}, ""),
        ({"state": {"running": {"startedAt": "2026-01-01"}}, "lastState": CRASHED, "restartCount": 3}, ""),
        ({"state": None}, ""),
    ],
)
@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_containers_tell_why_a_pod_does_not_run(container: dict[str, Any], expected: str, kind: str):
    assert find_pod_trouble({"status": {kind: [container]}}, now=NOW) == expected


def test_a_pod_that_was_thrown_out_says_so():
    assert find_pod_trouble({"status": {"phase": "Failed", "reason": "Evicted"}}, now=NOW) == "Evicted"
    assert find_pod_trouble({}, now=NOW) == ""
