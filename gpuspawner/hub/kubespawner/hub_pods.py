"""Reads the pods of the hub's servers from KubeSpawner's reflectors, and finds their owners.

With a namespace for each user, KubeSpawner watches the pods of all namespaces, also those of other hubs. A pod's
annotations keep the name that its user had when the pod was created; the hub knows the present one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cache
from typing import Any

from typing_extensions import override

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.policy.server_pods import read_pod_owner
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.reflectors import give_up_dead_reflectors, is_given_up
from gpuspawner.hub.spawner_protocol import PodWatchingSpawner, UserServer, WatchingSpawner

_ANY_NUMBER = "\0"
"""Stands for a user's number in an expanded template; pods do not carry it, and no namespace has this character."""


class _UserId:
    """A user's number that is not known."""

    @override
    def __format__(self, spec: str) -> str:
        return _ANY_NUMBER

    @override
    def __repr__(self) -> str:
        return _ANY_NUMBER


def make_own_pod_check(spawner: WatchingSpawner) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that checks whether a pod is in the namespace that this hub gives the pod's user.

    The user's name is read from the pod. A pattern for all users does not suffice: ``jhub-…`` matches the users of a
    hub in ``jhub`` and those of a hub in ``jhub-dev``. A call of the function takes as long as decoding a pod.

    :param spawner: any spawner of the hub.
    """
    stand_in = cache(lambda: private_api.make_stand_in(spawner, user_id=_UserId()))

    def is_own(raw: Mapping[str, Any]) -> bool:
        owner, server = read_pod_owner(raw)
        if not owner:
            return False
        user = stand_in()
        user.user.name, user.name = owner, server
        expected = private_api.expand_user_properties(user, spawner.user_namespace_template)
        found = as_text(as_dict(raw.get("metadata")).get("namespace"))
        if _ANY_NUMBER not in expected:
            return bool(expected == found)
        return re.fullmatch("[0-9]+".join(map(re.escape, expected.split(_ANY_NUMBER))), found) is not None

    return is_own


PodsByKey = Mapping[str, Mapping[str, Any]]
"""Pods as the API server sends them, by ``namespace/name``."""
IsOwnPod = Callable[[Mapping[str, Any]], bool]
"""Returns whether a pod belongs to a server of this hub."""


def list_pods_with(resources: Set[str], spawner: PodWatchingSpawner) -> tuple[Pod, ...] | None:
    """Return the servers' pods that hold or request any of some extended resources; None before pods were read.

    KubeSpawner begins to watch pods when the first server starts or is polled.

    :param resources: names such as ``nvidia.com/gpu``.
    :param spawner: any spawner of the hub.
    """
    reflector = spawner.pod_reflector
    if reflector is None or not has_read_pods(spawner):
        return None
    # Decoding a pod takes much longer than looking for the resource, and most servers have no GPU.
    found = (
        decode.decode_pod(raw, include_claimed=True)
        for raw in tuple(reflector.pods.values())
        if _has_resources(raw, resources)
    )
    return tuple(pod for pod in found if pod is not None)


def has_read_pods(spawner: PodWatchingSpawner) -> bool:
    """Return whether KubeSpawner has read the pods of servers.

    :param spawner: any spawner of the hub.
    """
    reflector = spawner.pod_reflector
    loaded = reflector.first_load_future if reflector is not None else None
    return loaded is not None and loaded.done() and not loaded.cancelled() and loaded.exception() is None


async def ensure_pods_watched(spawner: WatchingSpawner, *, timeout_s: float) -> None:
    """Have KubeSpawner watch the pods of servers and wait for its first list.

    The list goes on in the background after the timeout; :func:`has_read_pods` returns whether it is there.

    :param spawner: any spawner of the hub.
    :param timeout_s: seconds to wait.
    """
    give_up_dead_reflectors(type(spawner).reflectors)
    if has_read_pods(spawner) and not is_given_up(spawner.pod_reflector):
        return
    reading = asyncio.ensure_future(_start_pods_reflector(spawner))
    # KubeSpawner has logged a failure. Retrieve the exception, or asyncio logs that it was never retrieved.
    reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    await asyncio.wait({reading}, timeout=timeout_s)


def list_watched_pods(spawner: WatchingSpawner) -> Iterator[tuple[PodsByKey, IsOwnPod]]:
    """Yield the pods of each reflector, with the function that checks whether a pod is this hub's.

    With a namespace for each user, the only reflector covers all namespaces, also those of other hubs.

    :param spawner: any spawner of the hub.
    """
    for (kind, namespace), reflector in tuple(type(spawner).reflectors.items()):
        if kind != "pods":
            continue
        if namespace is not None:
            yield reflector.pods, lambda _: True
        else:
            yield reflector.pods, make_own_pod_check(spawner)


async def _start_pods_reflector(spawner: WatchingSpawner) -> None:
    try:
        await private_api.start_pods_reflector(spawner)
    except SystemExit as error:
        # KubeSpawner ends the hub if its watch of all namespaces fails. A form must not end the hub.
        raise RuntimeError("the pods of all namespaces cannot be watched") from error


def _has_resources(raw: Mapping[str, Any], resources: Set[str]) -> bool:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in raw["spec"]["containers"])
    return any(resources & each.keys() for each in limits)


ServerKey = tuple[str, str]
"""A user's name and their server's name; the latter is empty for the default server."""


def read_pod_owners(spawner: UserServer) -> Mapping[str, ServerKey]:
    """Return the owner of each pod that a loaded spawner of this hub names, by ``namespace/name``.

    :param spawner: any spawner of the hub; the settings of its user hold all users.
    """
    users = getattr(spawner.user, "settings", {}).get("users") or {}
    found: dict[str, ServerKey] = {}
    active: set[str] = set()
    # JupyterHub's dict of users loads a user from the database on access. dict.values() yields the loaded ones.
    for user in tuple(dict.values(users)):
        for each in tuple(user.spawners.values()):
            namespace, pod = getattr(each, "namespace", ""), getattr(each, "pod_name", "")
            key = f"{namespace}/{pod}"
            # Two spawners name the same pod if a user has taken the former name of another: the active one owns it.
            if pod and key not in active:
                found[key] = (user.name, each.name)
                if each.active:
                    active.add(key)
    return found
