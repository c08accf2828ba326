from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.progress.events import scrub_event, scrub_refusal
from tests.unit.core.starts import event
from tests.unit.hostile import JSON


@pytest.mark.parametrize(
    ("component", "reason", "message"),
    [
        ("default-scheduler", "Scheduled", "Successfully assigned hub/jupyter-ada to n1"),
        ("default-scheduler", "FailedScheduling", "0/2 nodes are available: 2 node(s) had untolerated taint(s)."),
        ("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 1->2 (max: 8)}]"),
        ("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p"),
        ("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p, node/ip-10-0-0-1"),
        ("kubelet", "Pulling", 'Pulling image "quay.io/x:1"'),
        ("kubelet", "FailedMount", 'MountVolume.SetUp failed for volume "tokens" : secret "tokens" not found'),
        (
            "kubelet",
            "FailedMount",
            "Unable to attach or mount volumes: unmounted volumes=[home], unattached volumes=[home dshm], failed to "
            "process volumes=[]: timed out waiting for the condition",
        ),
        (
            "default-scheduler",
            "FailedScheduling",
            '0/2 nodes are available: persistentvolumeclaim "claim-ada" not found',
        ),
        ("kubelet", "BackOff", "Back-off restarting failed container notebook in pod jupyter-ada_hub(1f2)"),
        ("kubelet", "OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8"),
    ],
)
def test_messages_about_the_pod_itself_are_kept(component: str, reason: str, message: str):
    assert scrub_event(event(component, reason, message))["message"] == message


@pytest.mark.parametrize(
    ("component", "reason", "message", "kept"),
    [
        ("default-scheduler", "Preempted", "Preempted by pod 6f2c on node n1", "…"),
        ("other-controller", "Scheduled", "Successfully assigned hub/jupyter-bob to n1", "…"),
        ("pod-kueue-controller", "Stopped", "Preempted to accommodate a workload of bob", "…"),
        (
            "default-scheduler",
            "FailedScheduling",
            "0/2 nodes are available: 2 node(s) had untolerated taint {team: bob}. preempted by hub/jupyter-bob",
            "0/2 nodes are available: 2 node(s) had untolerated taint …. …",
        ),
        (
            "default-scheduler",
            "FailedScheduling",
            "0/2 nodes are available: 2 node(s) had untolerated taint {team: bo",
            "0/2 nodes are available: 2 node(s) had untolerated taint …",
        ),
        (
            "attachdetach-controller",
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) jupyter-bob',
            'Multi-Attach error for volume "pvc-1" Volume is already …',
        ),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 node(s) had untolerated taint {reserved-for: bob}, 1 max node group size "
            "reached [{gpu 1->2 (max: 8)}]",
            "pod didn't trigger scale-up: 1 node(s) had untolerated taint …, 1 max node group size reached "
            "[{gpu 1->2 (max: 8)}]",
        ),
        (
            "karpenter",
            "FailedScheduling",
            'Failed to schedule pod, incompatible with nodepool "bob-gpu", daemonset overhead={"cpu":"1"}, did not '
            "tolerate reserved-for=bob:NoSchedule",
            "Failed to schedule pod incompatible with nodepool … did not tolerate …",
        ),
        (
            "karpenter",
            "FailedScheduling",
            'Failed to schedule pod, incompatible with nodepool "bob-gpu", did not tolerate taint '
            "(taint=reserved-for=bob:NoSchedule)",
            "Failed to schedule pod incompatible with nodepool … did not tolerate …",
        ),
        (
            "karpenter",
            "FailedScheduling",
            "incompatible requirements, key owner, owner In [ada] not in owner In [bob]",
            "incompatible requirements …",
        ),
        ("kubelet", "FailedMount", "volume claim-bob is locked", "…"),
        (
            "kubelet",
            "FailedMount",
            'MountVolume.MountDevice failed for volume "pvc-1" : rpc error: volume claim-bob is locked',
            'MountVolume.MountDevice failed for volume "pvc-1" …',
        ),
        ("kubelet", "Failed", "the lock of claim-bob, not claim-ada", "the lock of …, not claim-ada"),
        ("kubelet", "Failed", "device is held by bob", "device is …"),
        (
            "kubelet",
            "Failed",
            "jupyter-bob holds it, and hub/course-bob, not jupyter-ada",
            "… holds it, and …, not jupyter-ada",
        ),
    ],
)
def test_what_may_name_others_is_left_out(component: str, reason: str, message: str, kept: str):
    assert scrub_event(event(component, reason, message))["message"] == kept


def test_when_and_by_whom_it_was_written_is_kept_and_nothing_else():
    raw = event("kubelet", "Pulling", 'Pulling image "x"') | {
        "related": {"name": "jupyter-bob"},
        "metadata": {"a": "b"},
    }
    raw["source"]["host"] = "n1"
    assert scrub_event(raw) == {
        "type": "Normal",
        "reason": "Pulling",
        "message": 'Pulling image "x"',
        "count": 1,
        "firstTimestamp": None,
        "lastTimestamp": "2026-05-04T08:00:00Z",
        "eventTime": None,
        "reportingComponent": None,
        "source": {"component": "kubelet"},
        "involvedObject": {"kind": "Pod", "namespace": "hub", "name": "jupyter-ada"},
    }


def test_no_text_of_an_event_is_longer_than_a_message_may_be():
    raw = event("kubelet", "Pulling", "x" * 64_000) | {"reportingComponent": "y" * 64_000}
    kept = scrub_event(raw)
    assert (kept["message"], kept["reportingComponent"]) == ("x" * 4096, "y" * 4096)


@given(st.dictionaries(st.sampled_from(["source", "reason", "message", "involvedObject", "count"]), JSON))
def test_any_json_is_scrubbed(raw: dict[str, Any]):
    assert scrub_event(raw)["message"] == "…"


FORBIDDEN = 'pods "jupyter-ada" is forbidden:'


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            f"{FORBIDDEN} exceeded quota: gpus, requested: requests.nvidia.com/gpu=1,pods=1, used:"
            " requests.nvidia.com/gpu=4,pods=9, limited: requests.nvidia.com/gpu=4,pods=9",
            None,
            id="quota",
        ),
        pytest.param(
            f"{FORBIDDEN} [maximum cpu usage per Container is 2, but limit is 4, maximum memory usage per Pod is 1Gi,"
            " but limit is 4294967296]",
            f"{FORBIDDEN} maximum cpu usage per Container is 2, but limit is 4, maximum memory usage per Pod is 1Gi,"
            " but limit is 4294967296",
            id="LimitRange",
        ),
        pytest.param(
            f'{FORBIDDEN} pod rejected: RuntimeClass "nvidia" not found',
            f'{FORBIDDEN} … RuntimeClass "nvidia" not found',
            id="RuntimeClass",
        ),
        pytest.param(
            'Pod "jupyter-ada" is invalid: spec.containers[0].resources.requests: Invalid value: "8": must be less',
            None,
            id="invalid",
        ),
        pytest.param(f"{FORBIDDEN} no PriorityClass with name high was found", None, id="PriorityClass"),
        pytest.param(f"{FORBIDDEN} node gpu-7 is full of jupyter-bob", "", id="unknown"),
        pytest.param(
            'pods is forbidden: User "system:serviceaccount:jhub:hub" cannot create resource "pods" in API group ""'
            ' in the namespace "gpu-ada"',
            '… cannot create resource "pods" in API group "" in the namespace "gpu-ada"',
            id="rights",
        ),
        pytest.param('object is being deleted: pods "jupyter-bob" already exists', "", id="another pod"),
        pytest.param(
            'admission webhook "one" denied the request: jupyter-ada, jupyter-bob and claim-bob in hub/jupyter-eve',
            'admission webhook "one" denied the request: jupyter-ada, … and … in hub/…',
            id="webhook that names others",
        ),
        pytest.param("", "", id="nothing"),
    ],
)
def test_of_a_refusal_a_user_sees_only_the_part_about_their_own_pod(answer: str, told: str | None):
    assert scrub_refusal(answer, pod_name="jupyter-ada", namespace="hub") == (answer if told is None else told)
