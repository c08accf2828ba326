"""Hubs restart and spawns fail: neither leaves a trace on what comes after."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import V1Pod

from devcluster.hub import Hub
from tests.cluster.support.fleet import WHOLE_CARD
from tests.cluster.support.pods import Pods
from tests.cluster.support.servers import Servers
from tests.cluster.support.waiting import wait_for


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
