"""What only admins may read about a start is in the hub's log."""

from __future__ import annotations

from typing import Any

import pytest
from jupyterhub.utils import format_exception

from gpuspawner.hub.errors import RefusedStart
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.followed import NO_IMAGE
from tests.unit.hub.start.test_supervisor import quick, started
from tests.unit.kube.watch_server import WatchServer

__all__ = ["quick"]


def without_driver(pod: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = "gpu-1"
    message = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    state = {"waiting": {"reason": "RunContainerError", "message": message}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{**NO_IMAGE, "state": state}]}


async def test_a_fault_of_the_node_is_in_the_log_with_its_name_and_ends_the_start_with_other_gpus(
    make_spawner: MakeSpawner, server: WatchServer, caplog: pytest.LogCaptureFixture
):
    _, ending = await started(make_spawner, server, without_driver)
    assert isinstance(ending, RefusedStart)
    assert ending.reason == "node_faulty"
    assert " Try " in format_exception(ending)[0]
    assert "gpu-1" not in format_exception(ending)[0]
    assert [line for line in caplog.messages if "on the node gpu-1" in line] == [
        "The start of ada has a problem: container notebook on the node gpu-1: nvidia-container-cli: initialization"
        " error: nvml error: driver not loaded"
    ]
