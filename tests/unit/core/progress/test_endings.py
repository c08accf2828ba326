from __future__ import annotations

import pytest

from gpuspawner.core.progress.endings import explain_end_of_running, explain_removal, find_ending
from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.model import Stage, StartFailure
from tests.unit.core.starts import Json, container, ended, event, pod

REJECTED = "Pod was rejected: "
ALLOCATE = "Allocate failed due to "


@pytest.mark.parametrize(
    ("reason", "message", "code", "sentence"),
    [
        (
            "UnexpectedAdmissionError",
            f"{REJECTED}{ALLOCATE}no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which "
            "is unexpected",
            "device_unhealthy",
            "The A100 that was found for your server is out of order.",
        ),
        (
            "UnexpectedAdmissionError",
            f"{REJECTED}{ALLOCATE}previously allocated devices are no longer healthy; cannot allocate",
            "device_unhealthy",
            "The A100 that was found for your server is out of order.",
        ),
        (
            "UnexpectedAdmissionError",
            f"{REJECTED}{ALLOCATE}cannot allocate unregistered device nvidia.com/gpu, which is unexpected",
            "device_unhealthy",
            "The node that was found cannot hand out its A100 right now.",
        ),
        (
            "UnexpectedAdmissionError",
            f"{REJECTED}{ALLOCATE}requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: "
            "0, which is unexpected",
            "rejected_by_node",
            "The node that was found has no A100 left after all.",
        ),
        (
            "UnexpectedAdmissionError",
            f'{REJECTED}{ALLOCATE}rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu": '
            "invalid request: maximum request size for shared resources is 1; found 2, which is unexpected",
            "rejected_by_node",
            "Each A100 is shared by several servers, and a server can have one share only.",
        ),
        (
            "UnexpectedAdmissionError",
            f"{ALLOCATE}[invalid request for sharing GPU (time-sharing), at most 1 nvidia.com/gpu can be requested on "
            "GPU nodes], which is unexpected",
            "rejected_by_node",
            "Each A100 is shared by several servers, and a server can have one share only.",
        ),
        (
            "UnexpectedAdmissionError",
            "Update plugin resources failed due to something, which is unexpected.",
            "rejected_by_node",
            "The node that was found could not give your server what it needs.",
        ),
        (
            "OutOfnvidia.com/gpu",
            f"{REJECTED}Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8",
            "rejected_by_node",
            "The node that was found has no A100 left after all.",
        ),
        ("OutOfcpu", "", "rejected_by_node", "The node that was found has too little CPU left after all."),
        ("OutOfmemory", "", "rejected_by_node", "The node that was found has too little memory left after all."),
        ("OutOfpods", "", "rejected_by_node", "The node that was found has room for no more servers after all."),
        ("OutOfephemeral-storage", "", "rejected_by_node", "The node that was found refused your server."),
        (
            "NodeAffinity",
            f"{REJECTED}Predicate NodeAffinity failed",
            "rejected_by_node",
            "The node that was found refused your server.",
        ),
        (
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. ",
            "evicted",
            "The node ran out of memory while your server was starting there.",
        ),
        (
            "Evicted",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            "evicted",
            "The node ran out of disk space while your server was starting there.",
        ),
        ("Evicted", "Anything", "evicted", "Your server was sent away from its node while it was starting."),
        (
            "Preempting",
            "Preempted in order to admit critical pod",
            "preempted",
            "Your server had to give way to something of higher priority while it was starting.",
        ),
        ("NodeLost", "", "node_lost", "The node was taken out of service while your server was starting there."),
        (
            "Terminated",
            "Pod was terminated in response to imminent node shutdown.",
            "node_lost",
            "The node was taken out of service while your server was starting there.",
        ),
        (
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
            "evicted",
            "The time that your server may run for was over before it had started.",
        ),
        ("", "", "crashed", "The program of your server ended while it was starting."),
    ],
)
def test_why_a_pod_failed(reason: str, message: str, code: str, sentence: str):
    raw = pod(node="n", phase="Failed", reason=reason, message=message)
    found = find_ending(raw, parse_events([event("kubelet", reason, message)]), gpu_name="A100")
    assert (found.stage, found.failure.code, found.sentence) == (Stage.FAILED, code, sentence)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (ended("OOMKilled", 137), "out_of_memory"),
        (ended("Error", 1), "crashed"),
        (ended("StartError", 128), "container_config"),
    ],
)
def test_a_pod_whose_containers_are_not_started_again_says_why(state: Json, code: str):
    found = find_ending(pod(phase="Failed", containers=[container(state)]), ())
    assert found.failure.code == code


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("PreemptionByScheduler", "preempted"),
        ("DeletionByTaintManager", "node_lost"),
        ("DeletionByPodGC", "node_lost"),
        ("EvictionByEvictionAPI", "evicted"),
        ("TerminationByKubelet", "evicted"),
        ("AnythingElse", "evicted"),
    ],
)
def test_a_pod_that_is_being_ended_says_by_whom(reason: str, code: str):
    for raw in (
        pod(node="n", conditions={"DisruptionTarget": {"reason": reason}}),
        pod(phase="Failed", conditions={"DisruptionTarget": {"reason": reason}}),
    ):
        found = find_ending(raw, ())
        assert found.failure.code == code


@pytest.mark.parametrize(
    ("component", "reason", "message", "code"),
    [
        ("default-scheduler", "Preempted", "Preempted by pod 6f2c on node n1", "preempted"),
        ("kubelet", "Preempting", "Preempted in order to admit critical pod", "preempted"),
        ("kubelet", "Evicted", "The node was low on resource: memory.", "evicted"),
        ("taint-eviction-controller", "TaintManagerEviction", "Marking for deletion Pod hub/jupyter-ada", "node_lost"),
        ("cluster-autoscaler", "ScaleDown", "deleting pod for node scale down", "evicted"),
        ("karpenter", "Evicted", "Evicted pod: Underutilized", "evicted"),
        ("eks-auto-mode/compute", "Disrupted", "Deleting the pod to accommodate the terminationTime", "evicted"),
        ("pod-kueue-controller", "Stopped", "Preempted to accommodate a workload (UID: 1, JobUID: 2)", "preempted"),
        ("pod-kueue-controller", "Stopped", "The workload is deactivated", "evicted"),
        ("other-controller", "Preempted", "", "evicted"),
    ],
)
def test_a_pod_that_is_deleted_says_why_as_far_as_its_events_do(component: str, reason: str, message: str, code: str):
    events = parse_events([event(component, reason, message)])
    deleted = pod(metadata={"deletionTimestamp": "2026-05-04T08:00:00Z"})
    found = find_ending(deleted, events)
    assert (found.failure.code, explain_removal(pod(), events).failure) == (code, found.failure)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        pytest.param(
            "Exceeded the PodsReady timeout hub/pod-jupyter-ada-c541b",
            "The queue gave its quota back to others, because your server was not ready in time.",
            id="PodsReadyTimeout",
        ),
        pytest.param(
            "The ClusterQueue is stopped", "The queue was stopped while your server was starting.", id="ClusterQueue"
        ),
        pytest.param(
            "The LocalQueue is stopped", "The queue was stopped while your server was starting.", id="LocalQueue"
        ),
        pytest.param(
            "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
            "The queue ended your server while it was starting.",
            id="deactivated",
        ),
        pytest.param(
            "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization in the ClusterQueue",
            "Your server had to give way to something of higher priority while it was starting.",
            id="preempted",
        ),
    ],
)
def test_a_server_that_kueue_stops_says_why_and_names_no_node_that_it_never_had(message: str, sentence: str):
    events = parse_events([event("pod-kueue-controller", "Stopped", message)])
    found = find_ending(pod(metadata={"deletionTimestamp": "2026-05-04T08:00:00Z"}), events)
    assert (found.sentence, found.failure and found.failure.sentence) == (sentence, sentence)


@pytest.mark.parametrize(("is_node_lost", "code"), [(True, "node_lost"), (False, "evicted")])
def test_a_pod_that_never_ran_is_taken_away_without_a_word(is_node_lost: bool, code: str):
    deleted = pod(node="n", metadata={"deletionTimestamp": "2026-05-04T08:00:00Z"})
    found = find_ending(deleted, (), is_node_lost=is_node_lost)
    assert found.failure.code == code
    assert explain_removal(deleted, (), is_node_lost=is_node_lost) == found


HOOK_FAILED = event("kubelet", "FailedPostStartHook", "PostStartHook failed")


@pytest.mark.parametrize(
    ("phase", "state"),
    [("Succeeded", ended("Completed", 0)), ("Failed", ended("Error", 137))],
    ids=["ended by SIGTERM", "killed"],
)
def test_a_pod_that_ended_because_of_its_hook_says_so(phase: str, state: Json):
    raw = pod(node="n1", phase=phase, containers=[container(state)])
    found = find_ending(raw, parse_events([HOOK_FAILED]))
    sentence = "The postStart hook of your server failed. Ask an admin."
    assert found.failure == StartFailure(code="hook_failed", sentence=sentence)
    assert found.admin_text == "container notebook on the node n1: PostStartHook failed"


def test_a_pod_that_no_runtime_could_start_is_the_node_s_fault():
    text = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    raw = pod(node="n1", phase="Failed", containers=[container(ended("StartError", 128, text))])
    found = find_ending(raw, ())
    assert (found.failure.code, found.admin_text) == ("node_faulty", f"container notebook on the node n1: {text}")


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", ""])
def test_a_pod_that_lives_has_no_end(phase: str):
    assert find_ending(pod(phase=phase), ()) is None


PREEMPTED = event("default-scheduler", "Preempted", "Preempted by pod 1 on node n")
RUNS = pod(node="n", phase="Running", containers=[container({"running": {}})])
TARGET = {"DisruptionTarget": {"reason": "PreemptionByScheduler"}}


@pytest.mark.parametrize(
    ("raw", "events", "more", "code"),
    [
        pytest.param(RUNS, [PREEMPTED], {"is_gone": True}, "preempted", id="gone with an event"),
        pytest.param({}, [PREEMPTED], {"is_gone": True}, "preempted", id="never seen, with an event"),
        pytest.param(pod(conditions=TARGET), [], {"is_gone": False}, "preempted", id="with a condition"),
        pytest.param(pod(phase="Failed", reason="Evicted"), [], {"is_gone": False}, "evicted", id="evicted by kubelet"),
        pytest.param(pod(phase="Failed", reason="NodeLost"), [], {"is_gone": True}, "node_lost", id="a lost node"),
        pytest.param(RUNS, [], {"is_gone": True}, "evicted", id="gone without a trace"),
        pytest.param(RUNS, [], {"is_gone": True, "is_time_up": True}, "run_time_over", id="its time was over"),
        pytest.param(
            pod(phase="Failed", reason="DeadlineExceeded"), [], {"is_gone": False}, "run_time_over", id="deadline"
        ),
        pytest.param(
            pod(phase="Failed", containers=[container(ended("OOMKilled", 137))]),
            [],
            {"is_gone": True},
            "out_of_memory",
            id="killed for its memory",
        ),
        pytest.param(
            pod(phase="Succeeded", containers=[container(ended("Completed", 0))]),
            [],
            {"is_gone": True},
            None,
            id="its program ended",
        ),
        pytest.param(
            pod(phase="Running", containers=[container({"running": {}}, last=ended("Error", 1))]),
            [],
            {"is_gone": False},
            None,
            id="still there",
        ),
    ],
)
def test_a_server_that_ran_ends_with_a_reason_unless_its_own_program_ended(
    raw: Json, events: list[Json], more: dict[str, bool], code: str | None
):
    found = explain_end_of_running(raw, parse_events(events), **more)
    assert (None if found is None else found.code) == code
    assert found is None or "starting" not in found.sentence
