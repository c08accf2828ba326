"""The simulated cluster: nodes and pods as large as real ones, and the settings of a hub that offers all its GPUs.

Of each the number alone decides what it is, so that a cluster grows by more of the same and runs compare.
"""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
GPU_TYPES = 40
GPUS_PER_NODE = 8
NAMESPACES = 40
IMAGES_PER_NODE = 50
PODS_PER_APP = 20
"""Replicas of one deployment: they share labels and what they ask for."""

_KINDS = GPU_TYPES + 1
"""Kinds of nodes: one for each GPU type, and one without GPUs."""


def namespace(number: int) -> Manifest:
    """Return a namespace."""
    return {"metadata": {"name": f"team-{number}"}}


def product(kind: int) -> str:
    """Return the label value of a GPU type as GPU Feature Discovery would write it."""
    return f"NVIDIA-CARD-{kind}-SXM-80GB"


def node(number: int) -> Manifest:
    """Return a node with what kubelet, a cloud, NVIDIA's and Node Feature Discovery tell of it."""
    kind = number % _KINDS
    amounts = {"cpu": "96", "memory": f"{768 * 1024**2 + number % 1000}Ki", "pods": "110", "ephemeral-storage": "1Ti"}
    labels = _labels(number)
    taints: list[Manifest] = []
    if kind < GPU_TYPES:
        amounts[GPU] = str(GPUS_PER_NODE)
        labels |= _gpu_labels(kind)
        taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
    conditions = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    return {
        "metadata": {"name": node_name(number), "labels": labels},
        "spec": {"taints": taints, "providerID": f"cloud:///zone-{number % 3}/i-{number:017x}"},
        "status": {
            "allocatable": {**amounts, "cpu": "95690m"},
            "capacity": amounts,
            "conditions": [
                {"type": each, "status": str(each == "Ready"), "reason": "Kubelet", "message": "kubelet is posting it"}
                for each in conditions
            ],
            "addresses": [{"type": "InternalIP", "address": f"198.18.{number // 250}.{number % 250}"}],
            "images": [
                {
                    "names": [f"images.example/team-{image}/notebook@sha256:{image:064x}"],
                    "sizeBytes": 4_000_000_000 + image,
                }
                for image in range(IMAGES_PER_NODE)
            ],
        },
    }


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05}"


def pod(number: int, *, on: int, rank: int, name: str = "") -> Manifest:
    """Return a pod that is bound to a node: of a deployment, or each fifth a notebook server of its own user.

    Of the GPU nodes a quarter has no GPU left, the others have some: the first pods of each hold one.

    :param on: the number of the node.
    :param rank: how many pods are on it already.
    :param name: another one than its number gives it.
    """
    app = number // PODS_PER_APP
    kind = on % _KINDS
    taken = GPUS_PER_NODE if kind % 4 == 0 else (on // _KINDS + kind) % GPUS_PER_NODE
    holds_gpu = kind < GPU_TYPES and rank < taken
    requests = {"cpu": f"{250 + on % 7 * 250}m", "memory": f"{1 + on % 11}Gi"}
    main = _container("main", requests=requests)
    main["env"] = [{"name": f"SETTING_{n}", "value": f"what setting {n} of it is"} for n in range(20)]
    main["resources"]["limits"] = {GPU: "1"} if holds_gpu else {}
    return {
        "metadata": {
            "name": name or f"app-{app}-{number % PODS_PER_APP:02}-x8k2p",
            "namespace": f"team-{app % NAMESPACES}",
            "labels": _notebook_labels(number) if number % 5 == 0 else _app_labels(app),
            "annotations": {"checksum/config": f"{app:064x}", "metrics.example/port": "8080"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{app}", "uid": f"{app:032x}"}
            ],
        },
        "spec": {
            "nodeName": node_name(on),
            "serviceAccountName": "default",
            "containers": [main, _container("side", requests={"cpu": "10m", "memory": "32Mi"})],
            "volumes": [{"name": "work", "emptyDir": {}}, {"name": "token", "projected": {"sources": _TOKEN}}],
            "tolerations": [{"key": GPU, "operator": "Exists"}],
            **({"affinity": _apart(app)} if number % 10 == 1 else {}),
        },
    }


def status(step: int) -> Manifest:
    """Return what kubelet would write of a pod that starts: the first conditions, then both containers."""
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"}]
    if not step:
        return {"status": {"conditions": conditions}}
    ready = [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]
    containers = [
        {
            "name": name,
            "ready": True,
            "restartCount": 0,
            "image": f"images.example/mesh/{name}:v1",
            "imageID": f"images.example/mesh/{name}@sha256:{step:064x}",
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        for name in ("main", "side")
    ]
    return {"status": {"phase": "Running", "conditions": conditions + ready, "containerStatuses": containers}}


def settings() -> Manifest:
    """Return settings of a site that offers every GPU type, half of them with an autoscaler."""
    text = "What it is for and what is in it, in a sentence that a user would read before choosing."
    tolerations = [{"key": GPU, "operator": "Exists"}]
    return {
        "images": {
            f"image-{n}": {"display_name": f"Image {n}", "description": text, "image": f"images.example/image:{n}"}
            for n in range(10)
        },
        "cpu": {"min": 1, "max": 64, "step": 1, "default": 4},
        "memory": {"min": "1G", "max": "512G", "step": "1G", "default": "16G"},
        "gpus": {
            gpu_slug(kind): {
                "display_name": f"NVIDIA Card {kind} 80 GB",
                "description": text,
                "resource": GPU,
                "vendor": "nvidia",
                "match": {PRODUCT: [product(kind)]},
                "max_count": GPUS_PER_NODE,
                "tolerations": tolerations,
                **({"scale_up": {"max_nodes": 10_000, "gpus_per_node": 8, "minutes": 6}} if kind % 2 else {}),
            }
            for kind in range(GPU_TYPES)
        },
    }


def gpu_slug(kind: int) -> str:
    """Return the slug of a GPU type in the settings."""
    return f"card-{kind}"


_MOUNTS = [{"name": "work", "mountPath": "/work"}, {"name": "token", "mountPath": "/var/run/token", "readOnly": True}]
_TOKEN = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]


def _container(name: str, *, requests: dict[str, str]) -> Manifest:
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "failureThreshold": 6}
    return {
        "name": name,
        "image": f"images.example/suite/{name}:v1",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": requests},
        "volumeMounts": _MOUNTS,
        "readinessProbe": probe,
        "livenessProbe": probe,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False},
    }


def _apart(app: int) -> Manifest:
    """Return anti-affinity of an app's pods, which each pod that is looked at later has to be checked against."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": _app_labels(app)}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _app_labels(app: int) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": f"app-{app}",
        "app.kubernetes.io/part-of": f"suite-{app % 50}",
        "pod-template-hash": f"{app:010x}",
    }


def _notebook_labels(number: int) -> dict[str, str]:
    return {
        "app": "jupyterhub",
        "component": "singleuser-server",
        "heritage": "jupyterhub",
        "hub.jupyter.org/username": f"user-{number}",
        "hub.jupyter.org/servername": "",
    }


def _labels(number: int) -> dict[str, str]:
    """Return what Kubernetes, a cloud and Node Feature Discovery write on every node."""
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{n}": "true" for n in range(40)}
    zone = f"zone-{number % 3}"
    return {
        **features,
        "kubernetes.io/hostname": node_name(number),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": f"gpu-{number % _KINDS}.48xlarge",
        "topology.kubernetes.io/region": "region",
        "topology.kubernetes.io/zone": zone,
        "topology.csi.example/zone": zone,
        "csi.example/id": f"i-{number:017x}",
    }


def _gpu_labels(kind: int) -> dict[str, str]:
    """Return what GPU Feature Discovery writes on a node."""
    facts = {f"nvidia.com/gpu.deploy.part-{n}": "true" for n in range(10)}
    versions = {f"nvidia.com/cuda.{what}-version.{part}": "12" for what in ("driver", "runtime") for part in "abc"}
    return {
        **facts,
        **versions,
        PRODUCT: product(kind),
        "nvidia.com/gpu.count": str(GPUS_PER_NODE),
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.machine": "Machine-With-Eight-Cards",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "single",
    }
