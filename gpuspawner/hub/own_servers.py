"""The pods of the hub's own servers that hold GPUs, from the watch that KubeSpawner has of them anyway."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from gpuspawner.core import decode
from gpuspawner.core.inventory import Pod


def pods_with(resources: Set[str], spawner: Any) -> tuple[Pod, ...] | None:
    """Return the servers' pods that hold, or wait for, one of some extended resources.

    None while KubeSpawner does not watch them: it begins when anybody starts a server or asks after one.
    """
    reflector = spawner.pod_reflector
    loaded = reflector.first_load_future if reflector is not None else None
    if loaded is None or not loaded.done() or loaded.cancelled() or loaded.exception():
        return None
    # Most servers have no GPU, and reading a pod takes much longer than looking for one.
    found = (decode.pod(raw, with_devices=True) for raw in tuple(reflector.pods.values()) if _asks_for(raw, resources))
    return tuple(pod for pod in found if pod is not None)


def _asks_for(raw: Mapping[str, Any], resources: Set[str]) -> bool:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in raw["spec"]["containers"])
    return any(resources & each.keys() for each in limits)
