"""A queue of Kueue, as the API server lists it."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.core.kueue_workloads import local_queue
from tests.unit.hub.conftest import A100
from tests.unit.kube.watch_server import WatchServer

_API = "/apis/kueue.x-k8s.io/v1beta2"
LOCAL_QUEUES = f"{_API}/namespaces/default/localqueues"
CLUSTER_QUEUES, FLAVORS, CLASSES = (
    f"{_API}/{plural}" for plural in ("clusterqueues", "resourceflavors", "workloadpriorityclasses")
)
WAITING = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/main/pendingworkloads"
PATHS = (LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS, CLASSES, WAITING)
_GPU = "nvidia.com/gpu"


def listed(*items: Any) -> str:
    return json.dumps({"items": list(items)})


def serve(server: WatchServer, *, gpus: int, used: int = 0, waiting: tuple[int, ...] = ()) -> None:
    """Serve the queue ``gpu-queue`` and what it stands on.

    :param gpus: quota of A100.
    :param used: quota that is in use.
    :param waiting: priorities of what waits; the class ``people`` has 5.
    """
    resources = [
        {"name": name, "nominalQuota": amount} for name, amount in ((_GPU, gpus), ("cpu", 64), ("memory", "1Ti"))
    ]
    flavors = [{"name": "a100", "resources": resources}]
    usage = [{"name": each["name"], "total": used if each["name"] == _GPU else 0} for each in resources]
    reserved = [{"name": "a100", "resources": usage}]
    active = {"type": "Active", "status": "True", "reason": "Ready"}
    cluster_queue = {
        "metadata": {"name": "main"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [each["name"] for each in resources], "flavors": flavors}],
        },
        "status": {"flavorsReservation": reserved, "pendingWorkloads": len(waiting), "conditions": [active]},
    }
    flavor = {"metadata": {"name": "a100"}, "spec": {"nodeLabels": {"nvidia.com/gpu.product": A100}}}
    server.bodies |= {
        LOCAL_QUEUES: listed(local_queue()),
        CLUSTER_QUEUES: listed(cluster_queue),
        FLAVORS: listed(flavor),
        CLASSES: listed({"metadata": {"name": "people"}, "value": 5}),
        WAITING: listed(*({"priority": each} for each in waiting)),
    }
