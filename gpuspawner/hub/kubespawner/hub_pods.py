"""The pods of the hub's own servers, from the watch that KubeSpawner has of them anyway.

Which pods are of this hub's servers, where users have namespaces of their own: KubeSpawner watches all of them.

Whose the pods of servers are, as the hub knows it: what is written on a pod keeps a name that its user had once.
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
"""Where a namespace has the number of a user, which no pod notes; no namespace has this character."""


class _UserId:
    """The number of a user that is not known."""

    @override
    def __format__(self, spec: str) -> str:
        return _ANY_NUMBER

    @override
    def __repr__(self) -> str:
        return _ANY_NUMBER


def make_own_pod_check(spawner: WatchingSpawner) -> Callable[[Mapping[str, Any]], bool]:
    """Return what tells whether a pod is in the namespace that this hub gives the user whose name it notes.

    A pattern for all users would not do: ``jhub-…`` is the namespace of any user of a hub in ``jhub``, and of any user
    of a hub in ``jhub-dev``. What is returned costs as much as to read a pod, so ask once for each.

    :param spawner: anybody's.
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
"""By namespace and name, as the API sends them."""
IsOwnPod = Callable[[Mapping[str, Any]], bool]
"""Tells of a pod whether it is of this hub's servers."""


def list_pods_with(resources: Set[str], spawner: PodWatchingSpawner) -> tuple[Pod, ...] | None:
    """Return the servers' pods that hold, or wait for, one of some extended resources.

    None while KubeSpawner does not watch them: it begins when anybody starts a server or asks after one.
    """
    reflector = spawner.pod_reflector
    if reflector is None or not has_read_pods(spawner):
        return None
    # Most servers have no GPU, and reading a pod takes much longer than looking for one.
    found = (
        decode.decode_pod(raw, include_claimed=True)
        for raw in tuple(reflector.pods.values())
        if _has_resources(raw, resources)
    )
    return tuple(pod for pod in found if pod is not None)


def has_read_pods(spawner: PodWatchingSpawner) -> bool:
    """Tell whether KubeSpawner has read the pods of servers."""
    reflector = spawner.pod_reflector
    loaded = reflector.first_load_future if reflector is not None else None
    return loaded is not None and loaded.done() and not loaded.cancelled() and loaded.exception() is None


async def ensure_pods_watched(spawner: WatchingSpawner, *, timeout_s: float) -> None:
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


def list_watched_pods(spawner: WatchingSpawner) -> Iterator[tuple[PodsByKey, IsOwnPod]]:
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


async def _start_pods_reflector(spawner: WatchingSpawner) -> None:
    try:
        await private_api.start_pods_reflector(spawner)
    except SystemExit as error:
        # Where KubeSpawner watches all namespaces and cannot, it ends the hub. A form is no reason for that.
        raise RuntimeError("the pods of all namespaces cannot be watched") from error


def _has_resources(raw: Mapping[str, Any], resources: Set[str]) -> bool:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in raw["spec"]["containers"])
    return any(resources & each.keys() for each in limits)


ServerKey = tuple[str, str]
"""Names of a user and of their server; the latter is empty for the default one."""


def read_pod_owners(spawner: UserServer) -> Mapping[str, ServerKey]:
    """Return who owns the pods of all spawners that this hub has, by namespace and name of the pod.

    :param spawner: anybody's; JupyterHub gives all of them the same settings, with its users among them.
    """
    users = getattr(spawner.user, "settings", {}).get("users") or {}
    found: dict[str, ServerKey] = {}
    active: set[str] = set()
    # A hub's users are a dict that asks the database when it is asked for a name; its values are what is loaded.
    for user in tuple(dict.values(users)):
        for each in tuple(user.spawners.values()):
            namespace, pod = getattr(each, "namespace", ""), getattr(each, "pod_name", "")
            key = f"{namespace}/{pod}"
            # Two may have the same name of a pod, after one user took the former name of another.
            if pod and key not in active:
                found[key] = (user.name, each.name)
                if each.active:
                    active.add(key)
    return found
