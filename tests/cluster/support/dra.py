"""The objects of NVIDIA's DRA driver (gpu.nvidia.com), without it: a DeviceClass, and a node's ResourceSlice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api, ResourceV1Api

from devcluster.simulated import Pool

DRIVER = "gpu.nvidia.com"
GPU = "nvidia.com/gpu"
"""The extended resource by which pods ask for one."""

_DEVICE_CLASS = {
    "metadata": {"name": DRIVER},
    "spec": {
        "extendedResourceName": GPU,
        "selectors": [
            {"cel": {"expression": f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"}}
        ],
    },
}


@contextmanager
def node_with_devices(
    api: ApiClient, pool: str, *, labels: Mapping[str, str], devices: int, broken: int = 0
) -> Iterator[str]:
    """Have a simulated node whose GPUs only the driver offers, and the class of such GPUs, inside the block.

    :returns: its name.
    """
    core, resources = CoreV1Api(api), ResourceV1Api(api)
    (node,) = Pool(name=pool, count=1, allocatable={"cpu": "64", "memory": "256Gi"}, labels=labels).nodes()
    name = node["metadata"]["name"]
    with ExitStack() as made:
        core.create_node(node)
        made.callback(core.delete_node, name)
        resources.create_device_class(_DEVICE_CLASS)
        made.callback(resources.delete_device_class, DRIVER)
        resources.create_resource_slice(_resource_slice(name, devices=devices, broken=broken))
        made.callback(resources.delete_resource_slice, f"{name}-{DRIVER}")
        yield name


def _resource_slice(node: str, *, devices: int, broken: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(number, is_broken=number < broken) for number in range(devices)],
        },
    }


def _device(number: int, *, is_broken: bool) -> dict[str, Any]:
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{number}"},
        "productName": {"string": "NVIDIA L40S"},
        "driverVersion": {"version": "580.95.5"},
    }
    found: dict[str, Any] = {
        "name": f"gpu-{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": "46068Mi"}},
    }
    if is_broken:
        found["taints"] = [{"key": f"{DRIVER}/unhealthy", "effect": "NoSchedule"}]
    return found
