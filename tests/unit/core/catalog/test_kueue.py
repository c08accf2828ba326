"""The labels by which a pod is queued, and how it is told from one that is not."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.kueue import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    KueueQueue,
    is_gated,
    is_gated_on_creation,
    read_queue_name,
)


def pod(queue: object = "gpu-queue", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {QUEUE_LABEL: queue}, **metadata}}


def test_a_pod_that_is_to_be_queued_names_its_queue():
    assert KueueQueue(local_queue="gpu-queue").labels == {"kueue.x-k8s.io/queue-name": "gpu-queue"}


def test_a_priority_is_named_beside_it():
    labels = KueueQueue(local_queue="gpu-queue", priority_class="interactive").labels
    assert labels == {QUEUE_LABEL: "gpu-queue", "kueue.x-k8s.io/priority-class": "interactive"}
    assert PRIORITY_LABEL in labels


@pytest.mark.parametrize(
    ("gpus", "takes"), [(None, True), (frozenset({"a100"}), True), (frozenset({"t4"}), False), (frozenset(), False)]
)
def test_a_queue_is_for_some_types_or_for_all(gpus: frozenset[str] | None, takes: bool):
    assert KueueQueue(local_queue="q", gpus=gpus).accepts("a100") is takes


@pytest.mark.parametrize("strange", [{}, {"metadata": []}, {"metadata": {"labels": "x"}}, pod(5), pod(None)])
def test_a_pod_without_the_label_goes_through_no_queue(strange: dict[str, Any]):
    assert (read_queue_name(strange), is_gated_on_creation(strange)) == ("", False)


def test_a_pod_with_it_will_be_gated_when_it_is_created():
    assert (read_queue_name(pod()), is_gated_on_creation(pod())) == ("gpu-queue", True)


def test_of_a_pod_that_exists_its_gates_tell():
    assert not is_gated_on_creation(pod(uid="1"))


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, True),
        ({"schedulingGates": []}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_pod_waits_for_as_long_as_it_has_gates(spec: object, waits: bool):
    assert is_gated({"spec": spec}) is waits
