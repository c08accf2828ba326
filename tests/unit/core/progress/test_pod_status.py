from __future__ import annotations

import pytest

from gpuspawner.core.progress.pod_status import (
    condition,
    containers,
    device_count,
    gates,
    images,
    is_bound,
    is_queued_by_kueue,
    is_true,
    phase,
)
from tests.unit.core.starts import IMAGE, container, ended, pod, waits


def test_a_container_is_read_with_the_image_that_the_pod_asks_for():
    status = container(waits("ImagePullBackOff", "later"), restarts=2) | {"image": "docker.io/library/else:1"}
    (read,) = containers(pod(containers=[status]))
    assert (read.image, read.waiting, read.message, read.restarts, read.is_init, read.is_running) == (
        IMAGE,
        "ImagePullBackOff",
        "later",
        2,
        False,
        False,
    )


def test_how_a_container_ended_last_is_read_while_it_waits_again():
    (read,) = containers(pod(containers=[container(waits("CrashLoopBackOff"), last=ended("Error", 3))]))
    assert (read.waiting, read.ended, read.exit_code) == ("CrashLoopBackOff", "Error", 3)


def test_containers_that_prepare_the_pod_come_first():
    raw = pod(
        init_containers=[container({"running": {}}, name="init")], containers=[container(waits("PodInitializing"))]
    )
    assert [(each.name, each.is_init, each.is_running) for each in containers(raw)] == [
        ("init", True, True),
        ("notebook", False, False),
    ]


def test_a_condition_holds_or_not():
    raw = pod(conditions={"Ready": {"status": "False", "reason": "ContainersNotReady"}, "PodScheduled": {}})
    assert (is_true(raw, "Ready"), is_true(raw, "PodScheduled"), is_true(raw, "Other")) == (False, True, False)
    assert (condition(raw, "Ready")["reason"], condition(raw, "Other")) == ("ContainersNotReady", {})


def test_gates_are_named():
    assert gates(pod(gates=("example.org/a",))) == ("example.org/a",)
    assert [
        is_queued_by_kueue(pod(gates=each)) for each in ((), ("example.org/a",), ("kueue.x-k8s.io/admission",))
    ] == [
        False,
        False,
        True,
    ]


def test_a_pod_has_a_node_and_a_phase():
    assert (is_bound(pod()), is_bound(pod(node="n1")), phase(pod(phase="Running")), phase({})) == (
        False,
        True,
        "Running",
        "",
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
    assert device_count({"spec": {"containers": [{"resources": {"limits": limits}}]}}) == number


def test_images_are_those_the_pod_asks_for():
    raw = pod()
    raw["spec"]["initContainers"] = [{"image": "busybox"}, {"image": 1}]
    assert images(raw) == {IMAGE, "busybox"}
