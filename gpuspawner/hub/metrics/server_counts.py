"""How many servers and GPUs the hub's pods hold or wait for, by GPU type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuspawner.core.catalog.node_gpus import find_vendor
from gpuspawner.core.request.placement import ANNOTATION_PREFIX
from gpuspawner.hub.metrics.metrics import NO_GPU, OTHER_LABEL

REQUESTED = "requested"
HELD = "held"

_GPU, _COUNT = f"{ANNOTATION_PREFIX}gpu", f"{ANNOTATION_PREFIX}gpu-count"
_FINISHED = frozenset({"Succeeded", "Failed"})

GPUState = tuple[str, str]
"""GPU type, and whether it is held or requested."""


def count_servers(
    pods: Iterable[Mapping[str, Any]], *, label: Callable[[str], str]
) -> tuple[Counter[GPUState], Counter[GPUState]]:
    """Return servers and GPUs; a pod without a node requests what it asks for, others hold it.

    :param pods: as the API server sends them; a strange one is left out.
    :param label: what a GPU type is called.
    """
    servers: Counter[GPUState] = Counter()
    gpus: Counter[GPUState] = Counter()
    for pod in pods:
        try:
            if (pod.get("status") or {}).get("phase") in _FINISHED:
                continue
            gpu, number = _count_gpus(pod, label=label)
            key = (gpu, HELD if pod["spec"].get("nodeName") else REQUESTED)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        servers[key] += 1
        gpus[key] += number
    return servers, gpus


def _count_gpus(pod: Mapping[str, Any], *, label: Callable[[str], str]) -> tuple[str, int]:
    annotations = pod["metadata"].get("annotations") or {}
    if _GPU in annotations:
        return label(annotations[_GPU]), int(annotations.get(_COUNT, 1))
    # A server from before, or with GPUs that a hook gave it.
    limits = ((each.get("resources") or {}).get("limits") or {} for each in pod["spec"]["containers"])
    number = sum(int(amount) for each in limits for name, amount in each.items() if find_vendor(name))
    return (OTHER_LABEL, number) if number else (NO_GPU, 0)
