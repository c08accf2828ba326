"""Workloads as Kueue leaves them in the API server, for tests of the reasons why it admits no pod.

Texts and conditions were recorded from Kueue v0.16.2 on Kubernetes 1.36 in November 2026. Two flavors ``t4`` (2 GPUs)
and ``a100`` (8 GPUs), each with 8 CPUs, were in the ClusterQueue ``main``.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_ASSIGNMENT = "couldn't assign flavors to pod set main: "
_T4_OF_4 = (
    "insufficient quota for nvidia.com/gpu in flavor t4, previously considered podsets requests (0) + current podset "
    "request (4) > maximum capacity (2)"
)
_T4_OF_8 = _T4_OF_4.replace("(4)", "(8)")
_A100_OF_16 = (
    _T4_OF_4.replace("flavor t4", "flavor a100").replace("(4)", "(16)").replace("capacity (2)", "capacity (8)")
)
_T4_CPU = (
    "insufficient quota for cpu in flavor t4, previously considered podsets requests (0) + current podset request "
    "(10) > maximum capacity (8)"
)
NO_A100, NO_T4 = (f"flavor {name} doesn't match node affinity" for name in ("a100", "t4"))
A100_IN_USE = "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"

EXCEEDS_ONLY_FLAVOR = f"{_ASSIGNMENT}{NO_A100}, {_T4_OF_4}"
EXCEEDS_ALL_FLAVORS = f"{_ASSIGNMENT}{_A100_OF_16}, {_T4_OF_4.replace('(4)', '(16)')}"
EXCEEDS_CPU = f"{_ASSIGNMENT}{NO_A100}, {_T4_CPU}"
EXCEEDS_ONE_AND_WAITS_FOR_ANOTHER = f"{_ASSIGNMENT}{_T4_OF_8}, {A100_IN_USE}"
NO_MATCH = f"{_ASSIGNMENT}{NO_A100}, {NO_T4}"
NOT_COVERED = f"{_ASSIGNMENT}resource amd.com/gpu unavailable in ClusterQueue"
IN_USE = f"{_ASSIGNMENT}{NO_T4}, {A100_IN_USE}"
PREEMPTING = f"{IN_USE}. Pending the preemption of 1 workload(s)"
WRONG_NAMESPACE = "Workload namespace doesn't match ClusterQueue selector"
# As in Kueue's own tests (pkg/scheduler/flavorassigner/flavorassigner_test.go, pkg/scheduler/scheduler_tas_test.go).
TAINTED = f"{_ASSIGNMENT}untolerated taint {{instance spot NoSchedule <nil>}} in flavor t4"
TOPOLOGY = f'{_ASSIGNMENT}topology "default" doesn\'t allow to fit any of 1 pod(s)'


def condition(kind: str, reason: str, message: str = "", *, is_true: bool = False) -> Json:
    return {
        "lastTransitionTime": "2026-11-23T19:30:42Z",
        "message": message,
        "observedGeneration": 1,
        "reason": reason,
        "status": "True" if is_true else "False",
        "type": kind,
    }


def workload(
    *conditions: Json, pod_uid: str = "1", pod_name: str = "jupyter-ada", is_active: bool = True, **status: Any
) -> Json:
    """Return a Workload without its pod template."""
    owner = {"apiVersion": "v1", "blockOwnerDeletion": True, "controller": True, "kind": "Pod"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"pod-{pod_name}-561e4",
            "namespace": "hub",
            "labels": {"kueue.x-k8s.io/job-uid": pod_uid},
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [{**owner, "name": pod_name, "uid": pod_uid}],
        },
        "spec": {"active": is_active, "podSets": [{"count": 1, "name": "main"}], "priority": 0, "queueName": "main"},
        "status": {"conditions": list(conditions), **status} if conditions or status else {},
    }


def pending(message: str, **how: Any) -> Json:
    """Return a Workload that Kueue's scheduler did not admit."""
    return workload(condition("QuotaReserved", "Pending", message), **how)


def local_queue(name: str = "gpu-queue", *, reason: str = "Ready", message: str = "") -> Json:
    """Return a LocalQueue that admits Workloads only with the reason ``Ready``."""
    return {
        "metadata": {"name": name, "namespace": "hub"},
        "spec": {"clusterQueue": "main", "stopPolicy": "None"},
        "status": {"conditions": [condition("Active", reason, message, is_true=reason == "Ready")]},
    }
