"""How much memory a large cluster takes, measured on objects as a real one sends them."""

from __future__ import annotations

import json
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.state import Occupancy

PODS, NODES = 5000, 300
BYTES_PER_POD, BYTES_PER_NODE = 1500, 6000


def raw_node(number: int) -> str:
    """Return a GPU node with the labels that Kubernetes, a cloud, NVIDIA's and Intel's feature discovery put there."""
    features = {f"feature.node.kubernetes.io/cpu-cpuid.F{count}": "true" for count in range(40)}
    gpu = {f"nvidia.com/fact-{count}": f"value-{count}" for count in range(30)}
    labels = {**features, **gpu, "kubernetes.io/hostname": f"node-{number}", "csi.example.com/id": f"i-{number:017x}"}
    amounts = {"cpu": "95690m", "memory": f"{1_200_000_000 - number}Ki", "nvidia.com/gpu": "8", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    return json.dumps(
        {"metadata": {"name": f"node-{number}", "labels": labels}, "spec": {"taints": taints}, "status": status}
    )


def raw_pod(number: int) -> str:
    """Return a pod of a deployment, of which each tenth has rules; or each fifth a notebook server of its own user."""
    app = f"app-{number % 500}"
    labels = {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": app,
        "pod-template-hash": f"{number % 500:x}",
    }
    if number % 5 == 0:
        user = {"hub.jupyter.org/username": f"user-{number}", "hub.jupyter.org/servername": ""}
        labels = {"app": "jupyterhub", "component": "singleuser-server", "heritage": "jupyterhub", **user}
    resources = {"requests": {"cpu": "250m", "memory": f"{number % 50}Mi"}, "limits": {"nvidia.com/gpu": "1"}}
    spec: dict[str, Any] = {"nodeName": f"node-{number % NODES}", "containers": [{"resources": resources}]}
    if number % 10 == 1:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata = {
        "name": f"{app}-{number:x}-abcde",
        "namespace": f"namespace-{number % 40}",
        "uid": f"{number}",
        "labels": labels,
        "creationTimestamp": f"2026-11-21T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
    }
    return json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})


def measure() -> tuple[float, float]:
    """Return the bytes that a node and a pod take."""
    nodes, pods = [raw_node(number) for number in range(NODES)], [raw_pod(number) for number in range(PODS)]
    occupancy = Occupancy()
    tracemalloc.start()
    for raw in nodes:
        occupancy.put_node(decode.decode_node(json.loads(raw)))
    of_nodes = tracemalloc.get_traced_memory()[0]
    for raw in pods:
        if (pod := decode.decode_pod(json.loads(raw))) is not None:
            occupancy.put_pod(pod)
    of_pods = tracemalloc.get_traced_memory()[0] - of_nodes
    return of_nodes / NODES, of_pods / PODS


def test_pods_and_nodes_take_no_more_memory_than_planned():
    # In a process of its own: what other tests have left there, such as Python's table of interned strings that is just
    # about to double, would count.
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as processes:
        per_node, per_pod = processes.submit(measure).result()
    assert (per_node < BYTES_PER_NODE, per_pod < BYTES_PER_POD) == (True, True), (per_node, per_pod)
