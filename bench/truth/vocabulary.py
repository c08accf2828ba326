"""The parts of fleets: GPU products, machines that Karpenter may add, PriorityClasses, and how plain pods look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devcluster.simulated import SIMULATED

Manifest = dict[str, Any]

NAMESPACE = "truth"
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
POOL = "karpenter.sh/nodepool"
PRODUCTS = {
    "a100-80gb": "NVIDIA-A100-SXM4-80GB",
    "h100-80gb": "NVIDIA-H100-80GB-HBM3",
    "t4": "Tesla-T4",
    "l4": "NVIDIA-L4",
    "l40s": "NVIDIA-L40S",
}
"""Slug, as discovery names the type → the label that GPU Feature Discovery writes. No node of devcluster's has them."""

PRIORITY_CLASSES: Mapping[str, Manifest] = {
    "placeholder": {"value": -10},
    "usual": {"value": 0},
    "patient": {"value": 100, "preemptionPolicy": "Never"},
    "urgent": {"value": 1000},
}
USUAL = ""
"""Stands for no PriorityClass, which is priority 0."""
OTHERS_PRIORITIES: Mapping[str, int] = {USUAL: 6, "urgent": 1, "patient": 1}
"""PriorityClass of other users' pods → how often it is drawn."""

USUAL_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
"""One that servers with GPUs tolerate by themselves."""
TEAM_TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
"""One that no server tolerates."""

MACHINE_GPUS = (1, 2, 4, 8)
_CPUS_PER_GPU, _GIB_PER_GPU = 8, 32


def machine_name(gpus: int) -> str:
    """Return the name of Karpenter's instance type with so many GPUs."""
    return f"gpu-{gpus}x"


def machine_amounts(gpus: int) -> dict[str, str]:
    """Return the resources of that instance type."""
    return {
        "cpu": str(_CPUS_PER_GPU * gpus),
        "memory": f"{_GIB_PER_GPU * gpus}Gi",
        "ephemeral-storage": "500Gi",
        "pods": "110",
        GPU: str(gpus),
    }


def machines() -> list[Manifest]:
    """Return the instance types in the form of Karpenter's ``kwok/examples``."""

    def offering(gpus: int) -> Manifest:
        values = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
        requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in values.items()]
        return {"Price": float(gpus), "Available": True, "Requirements": requirements}

    return [
        {
            "name": machine_name(gpus),
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": machine_amounts(gpus),
            "offerings": [offering(gpus)],
        }
        for gpus in MACHINE_GPUS
    ]


def node(name: str, amounts: Mapping[str, str], *, labels: Mapping[str, str], taints: list[Manifest]) -> Manifest:
    """Return a simulated node, which KWOK keeps ready."""
    resources = {"pods": "110", "ephemeral-storage": "500Gi", **amounts}
    own = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        SIMULATED: "true",
    }
    return {
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": {"taints": taints},
        "status": {"allocatable": resources, "capacity": dict(resources)},
    }


def gpu_labels(product: str, gpus: int) -> dict[str, str]:
    """Return what GPU Feature Discovery writes on a node."""
    return {
        PRODUCT: product,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "false",
    }


def pod(name: str, amounts: Mapping[str, str], *, product: str = "", priority: str = USUAL) -> Manifest:
    """Return a pod of another user, for any node.

    :param product: of the GPUs that it asks for by label; empty for any.
    """
    limits = {key: value for key, value in amounts.items() if "/" in key}
    spec: Manifest = {
        "containers": [{"name": "main", "image": "none", "resources": {"requests": dict(amounts), "limits": limits}}],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }
    if limits:
        spec["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    if product:
        spec["nodeSelector"] = {PRODUCT: product}
    if priority:
        spec["priorityClassName"] = priority
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
