"""Hubs restart, and servers go on."""

from __future__ import annotations

import os
import signal

import pytest

from devcluster import Cluster
from devcluster.hub import Hub
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers


@pytest.mark.smoke
def test_a_server_keeps_running_while_the_hub_restarts(hub: Hub, servers: Servers, pods: Pods) -> None:
    with servers.running({"steady": {"gpu": WHOLE_CARD.slug}}):
        before = pods.of("steady").metadata.uid

        hub.stop_hub()
        during = pods.run("steady", "nvidia-smi").status
        hub.start_hub()
        servers.wait_ready("steady")

        assert (during, pods.of("steady").metadata.uid) == (0, before)


def test_a_server_can_be_stopped_by_the_hub_that_came_after(hub: Hub, servers: Servers, pods: Pods) -> None:
    with servers.running({"heir": {"gpu": WHOLE_CARD.slug}}):
        hub.restart()

        servers.stop("heir")

        assert pods.find("heir") is None


@pytest.mark.smoke
@pytest.mark.parametrize("is_killed", [False, True], ids=["terminated", "killed"])
def test_a_server_that_waits_for_a_gpu_goes_on_waiting_while_the_hub_restarts(
    cluster: Cluster, hub: Hub, servers: Servers, pods: Pods, is_killed: bool
) -> None:
    first, second = ({"gpu": WHOLE_CARD.slug, "gpu_count": count} for count in (3, 2))
    with servers.running({"holder": first}), servers.asked("patient", second):
        pods.wait_unschedulable("patient")
        before = pods.of("patient").metadata.uid

        if is_killed:
            os.kill(hub.hub_pid, signal.SIGKILL)
        hub.restart()
        told = servers.wait_told("patient", "Gives up in")
        state = servers.state("patient")
        servers.stop("holder")
        servers.wait_ready("patient")
        after = pods.of("patient")

        assert (state["pending"], state["ready"]) == ("spawn", False)
        assert "2 × " in told
        assert (after.metadata.uid, after.spec.node_name) == (before, cluster.real_node)
        assert pods.run("patient", "true").status == 0
