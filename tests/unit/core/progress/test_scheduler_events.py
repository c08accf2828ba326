from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.progress.scheduler_events import RefusalReason, parse_refusals

S = RefusalReason


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        pytest.param(
            "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint "
            "{nvidia.com/gpu: present}. preemption: 0/5 nodes are available: 2 No preemption victims found for "
            "incoming pod, 3 Preemption is not helpful for scheduling.",
            {S.DEVICES: 2, S.TAINTED: 3},
            id="up to 1.33",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/2 "
            "nodes are available: 2 Preemption is not helpful for scheduling.",
            {S.TAINTED: 2},
            id="from 1.34.2",
        ),
        pytest.param(
            "0/4 nodes are available: 1 node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't "
            "tolerate, 3 Insufficient cpu.",
            {S.TAINTED: 1, S.CPU: 3},
            id="up to 1.23",
        ),
        pytest.param(
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Too many pods, 2 "
            "Insufficient memory.",
            {S.CPU: 1, S.MEMORY: 2, S.DISK: 1, S.PODS: 1},
            id="resources",
        ),
        pytest.param(
            "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 1 node(s) had untolerated taint {c: d}, "
            "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
            {S.TAINTED: 2, S.NOT_READY: 1},
            id="several taints",
        ),
        pytest.param(
            "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) had untolerated taint "
            "{node.kubernetes.io/unschedulable: }.",
            {S.CORDONED: 1},
            id="cordoned",
        ),
        pytest.param(
            "0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector.",
            {S.UNSUITABLE: 6},
            id="selector",
        ),
        pytest.param(
            "0/6 nodes are available: 6 node(s) didn't match node selector.", {S.UNSUITABLE: 6}, id="selector, 1.19"
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.", {S.VOLUME_ZONE: 2}, id="volume"
        ),
        pytest.param(
            "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) had no "
            "available volume zone.",
            {S.VOLUME_ZONE: 1},
            id="volume, 1.32",
        ),
        pytest.param(
            '0/2 nodes are available: persistentvolumeclaim "claim-ada" not found.',
            {S.VOLUME_MISSING: 0},
            id="no claim",
        ),
        pytest.param(
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            {S.VOLUME_MISSING: 0},
            id="unbound",
        ),
        pytest.param(
            "0/2 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access "
            "mode already in-use by another pod, 1 node(s) exceed max volume count.",
            {S.VOLUME_IN_USE: 1, S.VOLUME_LIMIT: 1},
            id="volumes",
        ),
        pytest.param("0/1 nodes are available: 1 cannot allocate all claims.", {S.DEVICES: 1}, id="claims"),
        pytest.param(
            "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) didn't match pod "
            "topology spread constraints.",
            {S.OTHER_PODS: 2},
            id="other pods",
        ),
        pytest.param("no nodes available to schedule pods", {}, id="no nodes"),
        pytest.param("", {}, id="nothing"),
    ],
)
def test_what_the_scheduler_says_is_read(message: str, counts: dict[RefusalReason, int]):
    assert parse_refusals(message) == counts


def test_a_message_that_is_cut_says_what_it_says():
    taints = ", ".join(f"1 node(s) had untolerated taint {{team{i}: x}}" for i in range(60))
    cut = f"0/61 nodes are available: 1 Insufficient nvidia.com/gpu, {taints}"[:1024]
    assert parse_refusals(cut)[S.DEVICES] == 1


def test_the_part_about_preemption_says_nothing_of_the_nodes():
    text = (
        "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    )
    assert parse_refusals(text) == {S.PODS: 1}


@given(st.text())
def test_any_text_is_read(message: str):
    assert all(number >= 0 for number in parse_refusals(f"0/3 nodes are available: {message}").values())
