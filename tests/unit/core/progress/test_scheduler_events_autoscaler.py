from __future__ import annotations

import pytest

from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.scheduler_events import ScaleUpState, parse_autoscaler_events
from tests.unit.core.starts import event

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
    found = parse_autoscaler_events(parse_events([event(component, reason, message)]))
    assert found is not None
    assert found.state is ScaleUpState(growing)
    assert found.is_under_way == (growing in ("new-node", "node-found"))


def test_the_scheduler_s_failure_is_not_karpenter_s():
    assert (
        parse_autoscaler_events(
            parse_events([event("default-scheduler", "FailedScheduling", "0/1 nodes are available")])
        )
        is None
    )


def test_the_last_word_counts():
    events = [
        event("cluster-autoscaler", "TriggeredScaleUp", at_s=1),
        event("cluster-autoscaler", "NotTriggerScaleUp", f"{NOT_TRIGGERED}1 in backoff after failed scale-up", at_s=9),
        event("default-scheduler", "FailedScheduling", at_s=12),
    ]
    found = parse_autoscaler_events(parse_events(events))
    assert found is not None
    assert found.state is ScaleUpState.BACKING_OFF
