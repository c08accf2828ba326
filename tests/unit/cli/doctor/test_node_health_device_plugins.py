from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.node_health import (
    check_gpu_labels,
    check_plugins_exist,
    check_plugins_run,
    is_device_plugin,
)
from tests.unit.cli.doctor.cases import GPU, codes, facts, gpu_type, named, node

NAME = "nvidia-device-plugin-daemonset"
CRASHING = {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}


@pytest.mark.parametrize(
    "name",
    [
        NAME,
        "nvdp-nvidia-device-plugin",
        "nvidia-gpu-device-plugin-small-cos",
        "gpu-operator-node-feature-discovery-worker",
        "nvidia-driver-daemonset",
        "nvidia-mig-manager",
        "amdgpu-device-plugin-daemonset",
        "amd-gpu-labeller",
        "intel-gpu-plugin",
        "nvidia-dra-driver-gpu-kubelet-plugin",
    ],
)
def test_daemon_sets_of_gpus_are_recognized_by_their_names(name: str):
    assert is_device_plugin(named(name)) == (name != "gpu-operator-node-feature-discovery-worker")


@pytest.mark.parametrize("name", ["calico-node", "ebs-csi-node", "aws-node", "damd-driver-x"])
def test_others_are_not(name: str):
    assert not is_device_plugin(named(name))


def daemon_set(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": NAME, "namespace": "gpu", "uid": "u"}, "status": status}


def plugin_pod(owner: str = "u", **status: Any) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": [{"uid": owner}]}, "spec": {"nodeName": "n"}, "status": status}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (plugin_pod(**CRASHING), [("fault", "device-plugin-failing", (f"gpu/{NAME}", "n"))]),
        (plugin_pod(phase="Running"), []),
        (plugin_pod("another", **CRASHING), []),
    ],
)
def test_a_plugin_that_does_not_run_is_a_fault(pod: dict[str, Any], expected: list[Any]):
    read = {ObjectKind.DAEMON_SETS: [daemon_set(desiredNumberScheduled=2)], ObjectKind.PLUGIN_PODS: [pod]}
    assert codes(check_plugins_run, facts(read=read)) == expected


@pytest.mark.parametrize(
    ("labels", "is_found"),
    [
        ({"feature.node.kubernetes.io/pci-10de.present": "true"}, True),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, True),
        ({"k8s.amazonaws.com/accelerator": "nvidia-l4"}, True),
        ({"kubernetes.azure.com/accelerator": "other"}, False),
        # Of these the other rule tells.
        ({"nvidia.com/gpu.present": "true", "k8s.amazonaws.com/accelerator": "nvidia-l4"}, False),
        ({"k8s.amazonaws.com/accelerator": "x", "nvidia.com/gpu.workload.config": "vm-passthrough"}, False),
        ({}, False),
    ],
)
def test_labels_of_hardware_without_a_resource_are_a_fault(labels: dict[str, str], is_found: bool):
    expected = [("fault", "device-plugin-missing", ("n",))] if is_found else []
    assert codes(check_plugins_exist, facts(node(gpus=0, labels=labels))) == expected
    assert codes(check_plugins_exist, facts(node(labels=labels))) == []


def test_gpus_that_no_label_names_are_a_warning_unless_settings_describe_them():
    assert codes(check_gpu_labels, facts(node(labels={}))) == [("warning", "gpu-unlabelled", ("n",))]
    settings = {"gpus": {"mine": gpu_type(match={"pool": "a"})}}
    assert codes(check_gpu_labels, facts(node(labels={"pool": "a"}), settings=settings)) == []
    assert codes(check_gpu_labels, facts()) == []
    assert GPU in next(iter(check_gpu_labels(facts(node(labels={}))))).what
