"""The pods of the hub's own servers, from the watch that KubeSpawner has of them anyway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Set
from typing import Any

from gpuspawner.core import decode
from gpuspawner.core.inventory import Pod
from gpuspawner.hub.upkeep import drop_dead_reflectors


def pods_with(resources: Set[str], spawner: Any) -> tuple[Pod, ...] | None:
    """Return the servers' pods that hold, or wait for, one of some extended resources.

    None while KubeSpawner does not watch them: it begins when anybody starts a server or asks after one.
    """
    if not is_watched(spawner):
        return None
    reflector = spawner.pod_reflector
    # Most servers have no GPU, and reading a pod takes much longer than looking for one.
    found = (decode.pod(raw, with_devices=True) for raw in tuple(reflector.pods.values()) if _asks_for(raw, resources))
    return tuple(pod for pod in found if pod is not None)


def is_watched(spawner: Any) -> bool:
    """Tell whether KubeSpawner has read the pods of servers."""
    reflector = spawner.pod_reflector
    loaded = reflector.first_load_future if reflector is not None else None
    return loaded is not None and loaded.done() and not loaded.cancelled() and loaded.exception() is None


async def watch(spawner: Any, *, timeout_s: float) -> None:
    """Have KubeSpawner read the pods of servers, and wait for it a while; it goes on where that was not enough.

    :param timeout_s: seconds; :func:`is_watched` tells afterwards.
    """
    drop_dead_reflectors(type(spawner).reflectors)
    if is_watched(spawner):
        return
    reading = asyncio.ensure_future(spawner._start_watching_pods())
    # KubeSpawner has told its log what went wrong; asked for, or asyncio reports it where nobody waits.
    reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    await asyncio.wait({reading}, timeout=timeout_s)


def watched_pods(spawner: Any) -> Iterator[Mapping[str, Mapping[str, Any]]]:
    """Yield the pods of servers by namespace and name, as the API sends them; for each namespace that is watched."""
    for (kind, _), reflector in tuple(type(spawner).reflectors.items()):
        if kind == "pods":
            yield reflector.pods


def _asks_for(raw: Mapping[str, Any], resources: Set[str]) -> bool:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in raw["spec"]["containers"])
    return any(resources & each.keys() for each in limits)
