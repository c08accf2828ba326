"""Kueue's state of a pod, and its work that is left, are read from Kueue's objects."""

from __future__ import annotations

from typing import Any

import pytest

from bench.truth.queue_facts import (
    NO_WORKLOAD,
    QueueAnswer,
    QueueView,
    is_about_use,
    read_answer,
)
from bench.truth.queues import PRIORITY_LABEL, QUEUE_LABEL
from tests.unit.bench.truth.test_facts import gpu_pod
from tests.unit.core.kueue_workloads import A100_IN_USE, EXCEEDS_ALL_FLAVORS, IN_USE, PREEMPTING, condition, workload


def queued_pod() -> dict[str, Any]:
    pod = gpu_pod()
    pod["metadata"] |= {"uid": "1", "labels": {QUEUE_LABEL: "people", PRIORITY_LABEL: "high"}}
    pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    return pod


def make_workload(*conditions: Any) -> dict[str, Any]:
    made = workload(*conditions, pod_uid="1")
    made["metadata"] |= {"name": "a", "uid": "workload-a"}
    return made


def refused(message: str = IN_USE) -> dict[str, Any]:
    return make_workload(condition("QuotaReserved", "Pending", message))


def cluster_queue(strategy: str = "BestEffortFIFO", **status: Any) -> dict[str, Any]:
    conditions = [condition("Active", "Ready", is_true=True)]
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
