"""Hubs restart and spawns fail: neither leaves a trace on what comes after."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes.client import ApiClient, V1Pod

from devcluster import Cluster
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings
from tests.cluster.support.fixtures import offer
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pages import Visitor
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for


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


LIMIT_S = 20


@pytest.fixture
def short_of_time(cluster: Cluster, api: ApiClient) -> Iterator[Servers]:
    """Run a hub that waits for a GPU as long as its last restart takes."""
    nowhere = {
        "display_name": "GPU no node has",
        "resource": "nvidia.com/gpu",
        "match": {"nvidia.com/gpu.product": ["NO-SUCH-CARD"]},
        "max_count": 2,
        "start_timeout": LIMIT_S,
        "scale_up": {"max_nodes": 1, "gpus_per_node": 2, "minutes": 5},
    }
    settings = HubSettings(namespace="restarts", gpuspawner=offer(cluster, gpus={"nowhere": nowhere}))
    with Hub(cluster, settings) as hub:
        yield Servers(hub, Pods(api, hub.settings.namespace))


def test_a_start_whose_time_was_over_meanwhile_ends_with_its_reason(short_of_time: Servers) -> None:
    servers, hub, pods = short_of_time, short_of_time.hub, short_of_time.pods
    servers.begin("late", {"gpu": "nowhere"})
    pods.wait_unschedulable("late")
    created = pods.of("late").metadata.creation_timestamp
    hub.stop_hub()
    left = pods.find("late") is not None
    wait_for(lambda: (datetime.now(UTC) - created).total_seconds() > LIMIT_S, "the time to start over")
    hub.start_hub()

    told = servers.wait_told("late", "Spawn failed")
    pods.wait_gone("late")
    visitor = Visitor(hub.url)
    visitor.log_in("late")

    assert left
    assert f"{LIMIT_S} seconds" in told
    assert f"{LIMIT_S} seconds" in visitor.get("/hub/home").text


@pytest.fixture
def pod_after_failure(servers: Servers, pods: Pods) -> Any:
    """Let a GPU spawn fail, then ask for a server without GPU for the same user."""
    servers.begin("unlucky", {"gpu": "nowhere", "gpu_count": 2, "memory": "2G"})
    failed = pods.of("unlucky")
    assert failed.spec.containers[0].resources.limits["nvidia.com/gpu"] == "2"
    wait_for(lambda: not servers.state("unlucky").get("pending"), "the spawn given up", timeout_s=30)
    pods.wait_gone("unlucky")
    with servers.asked("unlucky", {"gpu": None}):
        yield pods.of("unlucky")


def test_a_spawn_after_a_failed_gpu_spawn_carries_no_trace_of_it(pod_after_failure: V1Pod) -> None:
    pod = pod_after_failure
    notebook = pod.spec.containers[0]
    terms = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    expressions = [rule for term in (terms.node_selector_terms if terms else []) for rule in term.match_expressions]
    taints = {toleration.key for toleration in pod.spec.tolerations or []}
    variables = {variable.name: variable.value for variable in notebook.env}

    assert set(notebook.resources.limits) <= {"cpu", "memory"}
    assert "nvidia.com/gpu.product" not in (pod.spec.node_selector or {})
    assert not [rule for rule in expressions if rule.operator == "In" and "NO-SUCH-CARD" in rule.values]
    assert "nowhere" not in taints
    assert "NOWHERE" not in variables
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "/dev/shm" not in {mount.mount_path for mount in notebook.volume_mounts}


def test_a_gpu_types_own_start_timeout_ends_the_wait(servers: Servers, pods: Pods) -> None:
    servers.begin("disappointed", {"gpu": "nowhere"})
    pods.wait_unschedulable("disappointed")

    servers.wait_told("disappointed", "Spawn failed")

    pods.wait_gone("disappointed")
