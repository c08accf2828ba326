"""The pods of the hub's own servers, from the watch that KubeSpawner has of them anyway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Pod
from gpuspawner.hub.kubespawner.upkeep import give_up_dead_reflectors, is_given_up
from gpuspawner.hub.kubespawner.user_namespaces import make_own_pod_check

PodsByKey = Mapping[str, Mapping[str, Any]]
"""By namespace and name, as the API sends them."""
IsOwnPod = Callable[[Mapping[str, Any]], bool]
"""Tells of a pod whether it is of this hub's servers."""


def list_pods_with(resources: Set[str], spawner: Any) -> tuple[Pod, ...] | None:
    """Return the servers' pods that hold, or wait for, one of some extended resources.

    None while KubeSpawner does not watch them: it begins when anybody starts a server or asks after one.
    """
    if not has_read_pods(spawner):
        return None
    reflector = spawner.pod_reflector
    # Most servers have no GPU, and reading a pod takes much longer than looking for one.
    found = (
        decode.decode_pod(raw, include_claimed=True)
        for raw in tuple(reflector.pods.values())
        if _has_resources(raw, resources)
    )
    return tuple(pod for pod in found if pod is not None)


def has_read_pods(spawner: Any) -> bool:
    """Tell whether KubeSpawner has read the pods of servers."""
    reflector = spawner.pod_reflector
    loaded = reflector.first_load_future if reflector is not None else None
    return loaded is not None and loaded.done() and not loaded.cancelled() and loaded.exception() is None


async def ensure_pods_watched(spawner: Any, *, timeout_s: float) -> None:
    """Have KubeSpawner read the pods of servers, and wait for it a while; it goes on where that was not enough.

    :param timeout_s: seconds; :func:`has_read_pods` tells afterwards.
    """
    give_up_dead_reflectors(type(spawner).reflectors)
    if has_read_pods(spawner) and not is_given_up(spawner.pod_reflector):
        return
    reading = asyncio.ensure_future(_start_pods_reflector(spawner))
    # KubeSpawner has told its log what went wrong; asked for, or asyncio reports it where nobody waits.
    reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    await asyncio.wait({reading}, timeout=timeout_s)


def list_watched_pods(spawner: Any) -> Iterator[tuple[PodsByKey, IsOwnPod]]:
    """Yield the pods of servers, and what tells of one whether it is this hub's, for each namespace that is watched.

    Where users have namespaces of their own, KubeSpawner watches all there are, with the servers of other hubs in them.
    """
    for (kind, namespace), reflector in tuple(type(spawner).reflectors.items()):
        if kind != "pods":
            continue
        if namespace is not None:
            yield reflector.pods, lambda _: True
        else:
            yield reflector.pods, make_own_pod_check(spawner)


async def _start_pods_reflector(spawner: Any) -> None:
    try:
        await spawner._start_watching_pods()
    except SystemExit as error:
        # Where KubeSpawner watches all namespaces and cannot, it ends the hub. A form is no reason for that.
        raise RuntimeError("the pods of all namespaces cannot be watched") from error


def _has_resources(raw: Mapping[str, Any], resources: Set[str]) -> bool:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in raw["spec"]["containers"])
    return any(resources & each.keys() for each in limits)
