"""Laws of a start's progress, whatever the API sends, and whatever else is in the cluster."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.kueue import QueueReason
from gpuspawner.core.progress.model import Facts, QueuePlace, Report, Stage
from gpuspawner.core.progress.tracker import Tracker
from gpuspawner.core.text.i18n import use_language
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from tests.unit.core.starts import IMAGE, Json, container, ended, event, pod, waits
from tests.unit.hostile import JSON
from tests.unit.pseudo import PSEUDO, bare

OTHER = "zaphod"
"""Another user, named in everything that Kubernetes says."""

MESSAGES = (
    "0/9 nodes are available: 4 Insufficient nvidia.com/gpu, 5 node(s) had untolerated taint {user: zaphod}.",
    "0/9 nodes are available: 9 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod of zaphod.",
    "Preempted by hub/jupyter-zaphod on node zaphod",
    "Preempted by pod jupyter-zaphod",
    'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) jupyter-zaphod, jupyter-zaphod--x',
    "pod triggered scale-up: [{zaphod 1->2 (max: 8)}]",
    "pod didn't trigger scale-up: 1 max node group size reached zaphod",
    "Pod should schedule on: nodeclaim/zaphod",
    'Failed to schedule pod, incompatible with nodepool "zaphod"',
    'Pulling image "registry.example/zaphod:1"',
    'Failed to pull image "registry.example/zaphod:1": not found',
    'Successfully pulled image "registry.example/zaphod:1" in 3s. Image size: 12 bytes.',
    'MountVolume.SetUp failed for volume "x": secret "zaphod" not found',
    "Preempted to accommodate a workload (UID: zaphod)",
    "couldn't assign flavors: insufficient quota in flavor zaphod, request > maximum capacity",
    "Allocate failed due to zaphod: no healthy devices",
    "The node was low on resource: memory. zaphod",
)
COMPONENTS = (
    "default-scheduler",
    "cluster-autoscaler",
    "karpenter",
    "kubelet",
    "kueue",
    "attachdetach-controller",
    "zaphod",
)
REASONS = (
    "FailedScheduling", "Scheduled", "Preempted", "TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp", "Nominated",
    "Evicted", "Pulling", "Pulled", "Failed", "BackOff", "FailedMount", "FailedAttachVolume", "Stopped", "Pending",
    "Created", "FailedToRetrieveImagePullSecret", "UnexpectedAdmissionError", "OutOfcpu", "ScaleDown", "zaphod",
)  # fmt: skip
PULLING = 'Pulling image "registry.example/zaphod:1"'
KNOWN = (
    ("default-scheduler", "FailedScheduling", MESSAGES[0]),
    ("default-scheduler", "Preempted", "Preempted by pod jupyter-zaphod"),
    ("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{zaphod 1->2 (max: 8)}]"),
    ("karpenter", "Nominated", "Pod should schedule on: nodeclaim/zaphod"),
    ("kubelet", "Pulling", PULLING),
    ("kubelet", "Pulled", 'Successfully pulled image "registry.example/zaphod:1" in 3s.'),
    ("kubelet", "Failed", "jupyter-zaphod holds the device"),
    ("kubelet", "FailedMount", "jupyter-zaphod holds the disk, hub/jupyter-zaphod too"),
    ("attachdetach-controller", "FailedAttachVolume", "Volume is already used by pod(s) jupyter-zaphod"),
)
EVENTS = st.builds(
    event, st.sampled_from(COMPONENTS), st.sampled_from(REASONS), st.sampled_from(MESSAGES), at_s=st.integers(0, 600)
) | st.builds(lambda known, at_s: event(*known, at_s=at_s), st.sampled_from(KNOWN), st.integers(0, 600))
WAITING = ("ContainerCreating", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError",
           "RunContainerError", "CrashLoopBackOff", "zaphod")  # fmt: skip
STATES = (
    st.builds(waits, st.sampled_from(WAITING), st.sampled_from(MESSAGES))
    | st.builds(ended, st.sampled_from(["OOMKilled", "Error", "Completed", "zaphod"]), st.integers(0, 255))
    | st.just({"running": {}})
)
CONTAINERS = st.lists(st.builds(container, STATES, last=STATES | st.none(), restarts=st.integers(0, 5)), max_size=2)
CONDITIONS = st.dictionaries(
    st.sampled_from(["PodScheduled", "Ready", "DisruptionTarget"]),
    st.fixed_dictionaries(
        {
            "status": st.sampled_from(["True", "False"]),
            "reason": st.sampled_from(["Unschedulable", "SchedulingGated", "PreemptionByScheduler", "zaphod"]),
            "message": st.sampled_from(MESSAGES),
        }
    ),
)
ANY_PODS = st.builds(
    pod,
    node=st.sampled_from(["", "zaphod"]),
    phase=st.sampled_from(["Pending", "Pending", "Running", "Failed", "Succeeded", "Unknown"]),
    reason=st.sampled_from(["", "UnexpectedAdmissionError", "OutOfnvidia.com/gpu", "Evicted", "NodeLost", "zaphod"]),
    message=st.sampled_from(MESSAGES),
    conditions=CONDITIONS,
    containers=CONTAINERS,
    init_containers=CONTAINERS,
    gates=st.sampled_from([(), (), ("kueue.x-k8s.io/admission",), ("zaphod/hold",)]),
)
STARTING = (
    pod(),
    pod(node="n"),
    pod(node="n", containers=[container(waits("ContainerCreating"))]),
    pod(node="n", containers=[container({"running": {}})]),
)
PODS = st.sampled_from(STARTING) | ANY_PODS
VERDICTS = st.builds(
    Verdict, outcome=st.sampled_from(Outcome), reason=st.sampled_from(["", "All are in use."]), ahead=st.integers(0, 3)
)
SIGHTS = st.tuples(
    st.integers(0, 40),
    st.none() | PODS,
    st.lists(EVENTS, max_size=4),
    st.none() | VERDICTS,
    st.none()
    | st.builds(
        QueuePlace,
        position=st.none() | st.integers(0, 9),
        queue=st.sampled_from(["", "gpu-queue"]),
        reason=st.none() | st.sampled_from(QueueReason),
        requeue_s=st.none() | st.floats(0, 1e6),
    ),
    st.none() | st.booleans(),
)
Sight = tuple[int, Json | None, list[Json], Verdict | None, QueuePlace | None, bool | None]


def reports(sights: list[Sight]) -> list[Report]:
    progress, found, since_s = Tracker(), [], 0
    for later_s, raw, events, verdict, queue, is_node_ready in sights:
        since_s += later_s
        facts = Facts(
            pod=raw,
            events=events,
            since_s=since_s,
            timeout_s=600.0,
            verdict=verdict,
            queue=queue,
            gpu_name="A100",
            is_node_ready=is_node_ready,
        )
        found += progress.observe(facts)
        assert not found or found[-1].percent <= progress.percent
    return found


@given(st.lists(SIGHTS, max_size=12))
def test_the_bar_never_goes_back_and_is_not_full_before_the_server_is_ready(sights: list[Sight]):
    found = reports(sights)
    percents = [report.percent for report in found]
    first = next((at for at, report in enumerate(found) if report.stage is Stage.READY), len(found))
    assert percents == sorted(percents)
    assert all(0 <= each <= 90 for each in percents[:first])
    assert all(each == 95 for each in percents[first:])


@given(st.lists(SIGHTS, max_size=12))
def test_nothing_is_said_twice_in_a_row_and_nothing_after_the_end(sights: list[Sight]):
    found = reports(sights)
    said = [(report.sentence, report.is_alarm, report.stage is Stage.FAILED) for report in found]
    assert all(before != after for before, after in pairwise(said))
    assert all(report.sentence for report in found)
    assert [report.stage is Stage.FAILED for report in found[:-1]] == [False] * len(found[:-1])
    assert [report.failure is not None for report in found] == [report.stage is Stage.FAILED for report in found]


@given(st.lists(SIGHTS, max_size=12))
def test_no_other_user_is_named(sights: list[Sight]):
    for report in reports(sights):
        assert OTHER not in report.sentence
        assert OTHER not in (report.failure.sentence if report.failure else "")
        assert f"jupyter-{OTHER}" not in str(report.raw_event)


TROUBLED = tuple(
    pod(node="n", containers=[container(state, last=last, restarts=3)])
    for state, last in (
        *(
            (waits(reason, message), None)
            for reason in WAITING
            for message in ("", "not found", "no such host", "secret")
        ),
        (waits("CrashLoopBackOff"), ended("Error", 3)),
        (waits("CrashLoopBackOff"), ended("OOMKilled", 137)),
        (waits("CrashLoopBackOff"), ended("Error", 127)),
    )
)
ENDED = tuple(
    pod(phase="Failed", reason=reason, message=message)
    for reason in ("", "UnexpectedAdmissionError", "OutOfcpu", "OutOfx/y", "Evicted", "Preempting", "NodeLost", "Other")
    for message in (
        "",
        "unhealthy",
        "low on resource: memory",
        "EmptyDir",
        "maximum request size for shared resources is 1",
    )
)


@pytest.mark.parametrize("known", KNOWN)
def test_all_that_is_said_is_translated(known: tuple[str, str, str]):
    with use_language(PSEUDO):
        for raw in (*STARTING, *TROUBLED, *ENDED):
            told = Tracker().observe(Facts(pod=raw, events=[event(*known)], since_s=40.0, timeout_s=600.0))
            assert told
            found = [re.search("[a-z]{3}", bare(report.sentence.replace(IMAGE, ""))) for report in told]
            assert found == [None] * len(told)


@given(st.lists(SIGHTS, max_size=8))
def test_the_same_facts_make_the_same_reports(sights: list[Sight]):
    assert reports(sights) == reports(sights)


def shapes(*names: str) -> st.SearchStrategy[Any]:
    """Return what looks like an object of the API, and holds anything."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON))


ANY_STATUS = shapes("phase", "reason", "message", "conditions", "nominatedNodeName") | st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Failed", "Running", "Pending"]) | JSON,
        "conditions": st.lists(shapes("type", "status", "reason", "message") | JSON),
        "containerStatuses": st.lists(shapes("name", "state", "lastState", "restartCount", "image") | JSON) | JSON,
    }
)
ANY_SPEC = shapes("nodeName", "schedulingGates", "containers", "initContainers", "schedulerName")
ANY_POD = st.fixed_dictionaries(
    {"metadata": shapes("uid") | JSON, "spec": ANY_SPEC | JSON, "status": ANY_STATUS | JSON}
)
ANY_EVENT = shapes("source", "reason", "message", "count", "series", "involvedObject", "lastTimestamp") | JSON


@given(st.lists(st.tuples(ANY_POD | JSON | PODS, st.lists(ANY_EVENT | EVENTS), st.floats()), max_size=3))
def test_whatever_the_api_sends_something_can_be_said(sights: list[tuple[Any, Any, float]]):
    progress = Tracker()
    said = [progress.observe(Facts(pod=raw, events=events, since_s=at)) for raw, events, at in sights]
    assert all(len(new) <= 3 for new in said)
