"""Kueue's state of a pod, and its work that is left, are read from Kueue's objects."""

from __future__ import annotations

from typing import Any

import pytest

from bench.truth.queue_facts import (
    NO_WORKLOAD,
    QueueAnswer,
    QueueView,
    is_about_use,
    is_held,
    list_states,
    list_work,
    read_answer,
)
from bench.truth.queues import PRIORITY_LABEL, QUEUE_LABEL
from bench.truth.vocabulary import GPU
from tests.unit.bench.truth.test_facts import gpu_pod
from tests.unit.core.kueue_workloads import A100_IN_USE, EXCEEDS_ALL_FLAVORS, IN_USE, PREEMPTING, condition, workload

GATES = [{"name": "kueue.x-k8s.io/admission"}]
ADMISSION = {
    "clusterQueue": "main",
    "podSetAssignments": [{"name": "main", "flavors": {GPU: "t4"}, "resourceUsage": {GPU: "1", "cpu": "1"}}],
}
RESERVED = [{"name": "t4", "resources": [{"name": GPU, "total": "1"}]}]


def queued_pod(uid: str = "1", *, held: bool = True, leaving: bool = False) -> dict[str, Any]:
    pod = gpu_pod()
    pod["metadata"] |= {"uid": uid, "labels": {QUEUE_LABEL: "people", PRIORITY_LABEL: "high"}}
    if held:
        pod["spec"]["schedulingGates"] = GATES
    if leaving:
        pod["metadata"]["deletionTimestamp"] = "2026-11-25T12:00:00Z"
    return pod


def make_workload(*conditions: Any, uid: str = "1", name: str = "a", **status: Any) -> dict[str, Any]:
    made = workload(*conditions, pod_uid=uid, **status)
    made["metadata"] |= {"name": name, "uid": f"workload-{name}"}
    return made


def refused(message: str = IN_USE, **names: str) -> dict[str, Any]:
    return make_workload(condition("QuotaReserved", "Pending", message), **names)


def admitted(*more: Any, **names: Any) -> dict[str, Any]:
    return make_workload(condition("QuotaReserved", "QuotaReserved", is_true=True), *more, admission=ADMISSION, **names)


def cluster_queue(strategy: str = "BestEffortFIFO", *, active: bool = True, **status: Any) -> dict[str, Any]:
    conditions = [condition("Active", "Ready" if active else "Stopped", is_true=active)]
    return {
        "metadata": {"name": "main"},
        "spec": {"queueingStrategy": strategy, "resourceGroups": []},
        "status": {"conditions": conditions, **status},
    }


def view(*workloads: Any, queue: Any = None, pending: tuple[str, ...] = ()) -> QueueView:
    queues = (queue or cluster_queue(pendingWorkloads=len(pending)),)
    return QueueView(workloads=workloads, cluster_queues=queues, pending={"main": pending})


STRICT = cluster_queue("StrictFIFO")


@pytest.mark.parametrize(
    ("of", "answer"),
    [
        pytest.param(view(), QueueAnswer(words=NO_WORKLOAD), id="no Workload"),
        pytest.param(view(make_workload(), pending=("a",)), QueueAnswer(position=0), id="not looked at"),
        pytest.param(
            view(refused(), pending=("b", "a")), QueueAnswer(words=IN_USE, position=1, is_final=True), id="refused"
        ),
        pytest.param(
            view(refused(PREEMPTING), pending=("a",)), QueueAnswer(words=PREEMPTING, position=0), id="makes room"
        ),
        pytest.param(view(make_workload(), queue=STRICT, pending=("a",)), QueueAnswer(position=0), id="strict, first"),
        pytest.param(
            view(make_workload(), queue=STRICT, pending=("b", "a")),
            QueueAnswer(position=1, is_final=True),
            id="strict, second",
        ),
        pytest.param(
            view(make_workload(condition("QuotaReserved", "Inadmissible", "LocalQueue people is inactive"))),
            QueueAnswer(words="LocalQueue people is inactive", is_final=True),
            id="inactive",
        ),
    ],
)
def test_the_answer_is_final_once_kueue_has_refused_or_will_not_look(of: QueueView, answer: QueueAnswer):
    assert read_answer(of, queued_pod(), cluster_queue="main") == answer


@pytest.mark.parametrize(
    ("words", "about_use"),
    [(IN_USE, True), (A100_IN_USE, True), (EXCEEDS_ALL_FLAVORS, False), ("", False)],
    ids=["in use", "one of two flavors", "more than the quota", "nothing"],
)
def test_words_about_unused_quota_say_that_the_quota_is_in_use(words: str, about_use: bool):
    assert is_about_use(words) is about_use


def test_a_pod_with_a_gate_is_held():
    assert [is_held(queued_pod(held=held)) for held in (True, False)] == [True, False]


USED = {"flavorsReservation": RESERVED}


@pytest.mark.parametrize(
    ("of", "pod", "work"),
    [
        pytest.param(view(refused(), pending=("a",)), queued_pod(), [], id="waits"),
        pytest.param(view(admitted(), queue=cluster_queue(**USED)), queued_pod(held=False), [], id="runs"),
        pytest.param(view(), queued_pod(), ["new: Kueue creates its Workload"], id="new"),
        pytest.param(view(), queued_pod(leaving=True), [], id="ended"),
        pytest.param(
            view(admitted(), queue=cluster_queue(**USED)), queued_pod(), ["new: Kueue lets it in"], id="admitted"
        ),
        pytest.param(
            view(admitted(condition("Evicted", "Preempted", is_true=True)), queue=cluster_queue(**USED)),
            queued_pod(held=False),
            ["new: Kueue evicts it"],
            id="evicted",
        ),
        pytest.param(
            view(refused(PREEMPTING), pending=("a",)),
            queued_pod(),
            ["new: Kueue preempts others for it"],
            id="preempts",
        ),
        pytest.param(
            view(refused(), refused(uid="2", name="b"), pending=("a",)),
            queued_pod(),
            ["the Workload b is left"],
            id="left",
        ),
        pytest.param(view(admitted()), queued_pod(held=False), ["main counts its quota"], id="counts quota"),
        pytest.param(
            view(refused(), queue=cluster_queue(), pending=("a",)),
            queued_pod(),
            ["main counts what waits"],
            id="counts",
        ),
        pytest.param(view(make_workload(), pending=("a",)), queued_pod(), ["Kueue looks at a"], id="not looked at"),
        pytest.param(
            view(make_workload(), queue=cluster_queue("StrictFIFO", pendingWorkloads=2), pending=("a", "b")),
            queued_pod(),
            ["Kueue looks at a"],
            id="strict, only the first is looked at",
        ),
        pytest.param(
            view(make_workload(), queue=cluster_queue(active=False, pendingWorkloads=1), pending=("a",)),
            queued_pod(),
            [],
            id="inactive, none is looked at",
        ),
    ],
)
def test_kueue_has_work_until_pods_workloads_and_counts_agree(of: QueueView, pod: dict[str, Any], work: list[str]):
    assert list(list_work(of, [pod])) == work


def test_kueue_creates_no_workload_of_a_class_that_does_not_exist():
    assert list(list_work(view(), [queued_pod()], absent_class="high")) == []


def test_a_workload_that_is_gone_or_loses_its_place_changes_the_states():
    before = list_states(view(refused(), admitted(uid="2", name="b")))
    assert before <= list_states(view(refused(), admitted(uid="2", name="b"), refused(uid="3", name="c")))
    assert not before <= list_states(view(refused()))
    assert not before <= list_states(view(admitted(), admitted(uid="2", name="b")))
