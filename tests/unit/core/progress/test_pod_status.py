from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.kueue import QUEUE_LABEL
from gpuspawner.core.progress.pod_status import (
    count_devices,
    is_gated,
    is_gated_on_creation,
    list_images,
    read_containers,
    read_queue_name,
)
from tests.unit.core.starts import IMAGE, container, pod, waits


def test_a_container_is_read_with_the_image_that_the_pod_asks_for():
    status = container(waits("ImagePullBackOff", "later"), restarts=2) | {"image": "docker.io/library/else:1"}
    (read,) = read_containers(pod(containers=[status]))
    assert (read.image, read.waiting, read.message, read.restarts, read.is_init, read.is_running) == (
        IMAGE,
        "ImagePullBackOff",
        "later",
        2,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("limits", "number"),
    [
        ({"nvidia.com/gpu": "2", "cpu": "8"}, 2),
        ({"nvidia.com/mig-1g.5gb": 3}, 3),
        ({"kubernetes.io/thing": "2"}, 0),
        ({"nvidia.com/gpu": "two"}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_devices_are_counted(limits: object, number: int):
    assert count_devices({"spec": {"containers": [{"resources": {"limits": limits}}]}}) == number


def test_images_are_those_the_pod_asks_for():
    raw = pod()
    raw["spec"]["initContainers"] = [{"image": "busybox"}, {"image": 1}]
    assert list_images(raw) == {IMAGE, "busybox"}


def queued(queue: object = "gpu-queue", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {QUEUE_LABEL: queue}, **metadata}}


@pytest.mark.parametrize("strange", [{}, {"metadata": []}, {"metadata": {"labels": "x"}}, queued(5), queued(None)])
def test_a_pod_without_the_label_goes_through_no_queue(strange: dict[str, Any]):
    assert (read_queue_name(strange), is_gated_on_creation(strange)) == ("", False)


def test_a_pod_with_it_will_be_gated_when_it_is_created():
    assert (read_queue_name(queued()), is_gated_on_creation(queued())) == ("gpu-queue", True)


def test_of_a_pod_that_exists_its_gates_tell():
    assert not is_gated_on_creation(queued(uid="1"))


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
