from __future__ import annotations

import pytest

from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.scheduler_events import ScaleUpState, list_autoscaler_statuses
from tests.unit.core.starts import Json, event

NOT_TRIGGERED = "pod didn't trigger scale-up: "


@pytest.mark.parametrize(
    ("component", "reason", "message", "growing"),
    [
        ("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{gpu 1->2 (max: 8)}]", "new-node"),
        ("cluster-autoscaler", "NotTriggerScaleUp", f"{NOT_TRIGGERED}1 max node group size reached", "at-limit"),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            f"{NOT_TRIGGERED}2 node(s) had untolerated taint(s), 3 Insufficient nvidia.com/gpu, 1 max cluster cpu "
            "limit reached",
            "at-limit",
        ),
        ("cluster-autoscaler", "NotTriggerScaleUp", "max total nodes in cluster reached", "at-limit"),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 3 Insufficient nvidia.com/gpu",
            "no-pool",
        ),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            f"{NOT_TRIGGERED}1 in backoff after failed scale-up",
            "backing-off",
        ),
        ("cluster-autoscaler", "NotTriggerScaleUp", f"{NOT_TRIGGERED}1 not ready for scale-up", "not-ready"),
        (
            "cluster-autoscaler",
            "NotTriggerScaleUp",
            f"{NOT_TRIGGERED}1 in backoff after failed scale-up, 1 max node group size reached",
            "at-limit",
        ),
        (
            "cluster-autoscaler",
            "FailedScaleUp",
            "Node scale up in zones europe-west4-a associated with this pod failed: GCE quota exceeded. Pod is at risk "
            "of not being scheduled.",
            "out-of-quota",
        ),
        (
            "cluster-autoscaler",
            "FailedScaleUp",
            "Node scale up in zones europe-west4-a associated with this pod failed: GCE out of resources. Pod is at "
            "risk of not being scheduled.",
            "out-of-stock",
        ),
        ("cluster-autoscaler", "FailedScaleUp", "Node scale up failed: Internal error.", "out-of-stock"),
        ("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p", "new-node"),
        ("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p, node/ip-10-0-0-1", "new-node"),
        ("eks-auto-mode/compute", "Nominated", "Pod should schedule on: node/i-0123", "node-found"),
        (
            "karpenter",
            "FailedScheduling",
            'Failed to schedule pod, all available instance types exceed limits for nodepool: "gpu"',
            "at-limit",
        ),
        (
            "karpenter",
            "FailedScheduling",
            'Failed to schedule pod, node limits have been exhausted for nodepool "gpu"',
            "at-limit",
        ),
        (
            "eks-auto-mode/compute",
            "FailedScheduling",
            'Failed to schedule pod, incompatible with nodepool "gpu", did not tolerate taint '
            "(taint=nvidia.com/gpu=present:NoSchedule)",
            "no-pool",
        ),
    ],
)
def test_what_an_autoscaler_does_is_read(component: str, reason: str, message: str, growing: str):
    (found,) = list_autoscaler_statuses(parse_events([event(component, reason, message)]))
    assert found.state is ScaleUpState(growing)
    assert found.is_under_way == (growing in ("new-node", "node-found"))


def read_states(*raw: Json) -> list[ScaleUpState]:
    return [status.state for status in list_autoscaler_statuses(parse_events(raw))]


def test_the_scheduler_s_failure_is_not_karpenter_s():
    assert read_states(event("default-scheduler", "FailedScheduling", "0/1 nodes are available")) == []


def test_the_last_word_of_an_autoscaler_counts():
    states = read_states(
        event("cluster-autoscaler", "TriggeredScaleUp", at_s=1),
        event("cluster-autoscaler", "NotTriggerScaleUp", f"{NOT_TRIGGERED}1 in backoff after failed scale-up", at_s=9),
        event("default-scheduler", "FailedScheduling", at_s=12),
    )
    assert states == [ScaleUpState.BACKING_OFF]


def test_each_autoscaler_has_its_own_word():
    states = read_states(
        event("karpenter", "Nominated", "Pod should schedule on: nodeclaim/gpu-a", at_s=1),
        event("eks-auto-mode/compute", "FailedScheduling", "Failed to schedule pod, did not tolerate taint", at_s=2),
        event("cluster-autoscaler", "NotTriggerScaleUp", f"{NOT_TRIGGERED}1 max node group size reached", at_s=3),
    )
    assert states == [ScaleUpState.AT_LIMIT, ScaleUpState.NO_POOL, ScaleUpState.NEW_NODE]


def nominate(*names: str, from_s: int = 0) -> list[Json]:
    return [
        event("karpenter", "Nominated", f"Pod should schedule on: {name}", at_s=from_s + at)
        for at, name in enumerate(names)
    ]


def test_the_sixth_nodeclaim_in_a_row_is_as_hopeless_as_those_before():
    claims = [f"nodeclaim/gpu-{number}" for number in range(6)]
    refusal = event("karpenter", "FailedScheduling", "Failed to schedule pod, did not tolerate taint", at_s=3)
    assert read_states(*nominate(*claims[:5])) == [ScaleUpState.NEW_NODE]
    assert read_states(*nominate(*claims)) == [ScaleUpState.NODES_FAIL]
    assert read_states(*nominate(*claims[:3]), refusal, *nominate(*claims[3:], from_s=4)) == [ScaleUpState.NEW_NODE]
    assert read_states(*nominate(*claims, "node/gpu-7")) == [ScaleUpState.NODE_FOUND]
    assert read_states(*nominate(*["nodeclaim/gpu-0"] * 9)) == [ScaleUpState.NEW_NODE]
