"""Reads the pods and events of the hub's servers from KubeSpawner's reflectors, and finds the pods' owners.

If each user has a namespace (``enable_user_namespaces``), KubeSpawner watches the pods of all namespaces, including
those of other hubs. A pod's annotations contain the user's name at the time when the pod was created. An admin may have
renamed the user since, so :func:`read_pod_owners` reads the current names from the hub's spawners.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from typing_extensions import override

from gpuspawner.core.cluster import decode
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.policy.usage import read_pod_owner
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.reflectors import give_up_dead_reflectors, is_given_up, measure_first_list_s
from gpuspawner.hub.spawner_protocol import HubSpawner

_ANY_NUMBER = "\0"
"""Stands for a user id in an expanded namespace template; no namespace's name contains this character."""


class _UserId:
    """Placeholder for the id of a pod's user, which the pod does not contain; formats as :data:`_ANY_NUMBER`."""

    @override
    def __format__(self, spec: str) -> str:
        return _ANY_NUMBER

    @override
    def __repr__(self) -> str:
        return _ANY_NUMBER


def make_own_pod_check(spawner: HubSpawner) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that checks whether a pod is in the namespace that this hub gives the pod's user.

    The function expands ``user_namespace_template`` for the user's name in the pod. One pattern for all users does not
    suffice: the pattern ``jhub-*`` of one hub also matches a namespace ``jhub-dev-ada`` of another hub. The function is
    slow, so call it only once for each version of a pod.

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
"""JSON of pods, as the API server sends them, by ``namespace/name``."""
IsOwnPod = Callable[[Mapping[str, Any]], bool]
"""Function that returns whether a pod, given as JSON, belongs to a server of this hub."""


def find_pod(spawner: HubSpawner) -> Mapping[str, Any] | None:
    """Return the JSON of a server's pod from KubeSpawner's reflector, or None if the reflector has no such pod."""
    reflector = spawner.pod_reflector
    return None if reflector is None else reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}")


def list_pods_with(resources: Set[str], spawner: HubSpawner) -> tuple[Pod, ...] | None:
    """Return the unfinished pods in the spawner's reflector that request any of the given extended resources.

    The result is None until the reflector has listed the pods (see :func:`ensure_pods_watched`). If each user has a
    namespace, the result may contain pods of other hubs.

    :param spawner: any spawner of the hub.
    """
    reflector = spawner.pod_reflector
    if reflector is None or not has_read_pods(spawner):
        return None
    # Decode only pods that request the resources: most pods have no GPU, and decoding takes longer than this check.
    found = (decode.decode_pod(raw) for raw in tuple(reflector.pods.values()) if _has_resources(raw, resources))
    return tuple(pod for pod in found if pod is not None)


def has_read_pods(spawner: HubSpawner) -> bool:
    """Return whether KubeSpawner's reflector of pods has read its first list.

    :param spawner: any spawner of the hub.
    """
    loaded = _find_first_load(spawner)
    return loaded is not None and loaded.exception() is None


def find_pods_failure(spawner: HubSpawner) -> BaseException | None:
    """Return the exception with which the first list of KubeSpawner's reflector of pods failed.

    The result is None if the list has not failed, or if there is no reflector.

    :param spawner: any spawner of the hub.
    """
    loaded = _find_first_load(spawner)
    return None if loaded is None else loaded.exception()


def _find_first_load(spawner: HubSpawner) -> asyncio.Future[None] | None:
    """Return the completed future of the first list of KubeSpawner's reflector of pods.

    The result is None if there is no reflector, if the future is not done yet, or if it was cancelled.
    """
    reflector = spawner.pod_reflector
    loaded = reflector.first_load_future if reflector is not None else None
    return loaded if loaded is not None and loaded.done() and not loaded.cancelled() else None


async def ensure_pods_watched(spawner: HubSpawner, *, timeout_s: float | None, waits_again: bool = True) -> None:
    """Start KubeSpawner's reflector of pods if necessary, and wait for its first list.

    After the timeout, the reflector goes on reading the list in the background. :func:`has_read_pods` returns whether
    the reflector has the list.

    :param spawner: any spawner of the hub.
    :param waits_again: True to count ``timeout_s`` from this call; False to count from when the reflector began to read
        its first list.
    """
    give_up_dead_reflectors(type(spawner).reflectors)
    if has_read_pods(spawner) and not is_given_up(spawner.pod_reflector):
        return
    if timeout_s is not None and not waits_again:
        read_s = measure_first_list_s(spawner.pod_reflector)
        if read_s > timeout_s:
            return
        timeout_s -= read_s
    await asyncio.wait({_start_reflector(spawner, private_api.start_pods_reflector)}, timeout=timeout_s)


async def ensure_events_watched(spawner: HubSpawner, *, timeout_s: float) -> None:
    """Start KubeSpawner's reflector of events if necessary, and wait for its first list.

    After the timeout, the reflector goes on reading the list in the background.

    :param spawner: any spawner of the hub.
    """
    await asyncio.wait({_start_reflector(spawner, private_api.start_events_reflector)}, timeout=timeout_s)


def renew_watches(spawner: HubSpawner) -> None:
    """Replace reflectors of pods and events that have given up; call this repeatedly while a server starts.

    A reflector gives up after half a minute without the API server, and KubeSpawner replaces it only at the next start.

    :param spawner: any spawner of the hub.
    """
    give_up_dead_reflectors(type(spawner).reflectors)
    for reflector, start in (
        (spawner.pod_reflector, private_api.start_pods_reflector),
        (spawner.event_reflector, private_api.start_events_reflector),
    ):
        if is_given_up(reflector) and reflector not in _renewed:
            _renewed.add(reflector)
            _start_reflector(spawner, start).add_done_callback(partial(_finish_renewal, reflector))


_renewed: WeakSet[Any] = WeakSet()
"""Reflectors that are being replaced now, so that several starts do not replace the same reflector."""


def _finish_renewal(reflector: Any, _: asyncio.Future[None]) -> None:
    _renewed.discard(reflector)


def _start_reflector(spawner: HubSpawner, start: Callable[[object], Awaitable[None]]) -> asyncio.Future[None]:
    async def run() -> None:
        try:
            await start(spawner)
        except SystemExit as error:
            # KubeSpawner raises SystemExit if it cannot watch all namespaces, but a request for the form must not end
            # the hub.
            raise RuntimeError("the pods of all namespaces cannot be watched") from error

    reading = asyncio.ensure_future(run())
    # KubeSpawner logs a failure itself. Retrieve the exception, so that asyncio does not log it, too.
    reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return reading


def list_watched_pods(spawner: HubSpawner) -> Iterator[tuple[PodsByKey, IsOwnPod]]:
    """Yield the pods of each reflector, with a function that returns whether a pod belongs to this hub.

    If each user has a namespace, a single reflector reads the pods of all namespaces, including those of other hubs.

    :param spawner: any spawner of the hub.
    """
    for (kind, namespace), reflector in tuple(type(spawner).reflectors.items()):
        if kind != "pods":
            continue
        if namespace is not None:
            yield reflector.pods, lambda _: True
        else:
            yield reflector.pods, make_own_pod_check(spawner)


def _has_resources(raw: Mapping[str, Any], resources: Set[str]) -> bool:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in raw["spec"]["containers"])
    return any(resources & each.keys() for each in limits)


ServerKey = tuple[str, str]
"""User name and server name; the server name is empty for the default server."""


def read_pod_owners(spawner: HubSpawner) -> Mapping[str, ServerKey]:
    """Return a mapping from a pod's ``namespace/name`` to the user and server that own the pod.

    The function reads the spawners that the hub has loaded, not the pods.

    :param spawner: any spawner of the hub; ``spawner.user.settings`` contains the users that the hub has loaded.
    """
    users = getattr(spawner.user, "settings", {}).get("users") or {}
    found: dict[str, ServerKey] = {}
    active: set[str] = set()
    # Call dict.values(), because JupyterHub's own dict of users would load each user from the database.
    for user in tuple(dict.values(users)):
        for each in tuple(user.spawners.values()):
            namespace, pod = getattr(each, "namespace", ""), getattr(each, "pod_name", "")
            key = f"{namespace}/{pod}"
            # Two spawners may have the same pod name after one user was renamed and a new user got the old name. The
            # pod belongs to the active spawner.
            if pod and key not in active:
                found[key] = (user.name, each.name)
                if each.active:
                    active.add(key)
    return found


PodEvent = Mapping[str, Any]
"""JSON of a Kubernetes v1 Event, as KubeSpawner's reflector holds it."""

_SORTED_S = 0.9
"""Age in seconds at which :class:`PodEventIndex` groups the events again.

It is below one second, because the hub checks a start each second."""


def select_pod_events(events: Iterable[PodEvent], name: str, *, after: str | None) -> list[PodEvent]:
    """Return a pod's events, oldest first; the result equals that of the property ``KubeSpawner.events``.

    This function is faster: it sorts only the pod's own events, whereas the property sorts the events of all pods.

    :param after: uid of an event; only later events are returned. If ``after`` is None, or if no event of the pod has
        this uid, all events of the pod are returned.
    """
    own = sorted((event for event in events if _read_pod_name(event) == name), key=_read_time)
    last = max((place for place, event in enumerate(own, 1) if event["metadata"]["uid"] == after), default=0)
    return own[last:]


class PodEventIndex:
    """Groups the events of a reflector by pod, and keeps the groups for :data:`_SORTED_S` seconds to save time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sorted: WeakKeyDictionary[Any, tuple[float, dict[str, list[PodEvent]]]] = WeakKeyDictionary()

    def list_events(self, reflector: Any, name: str) -> list[PodEvent]:
        """Return a pod's events, oldest first; events of the last second may be missing.

        :param reflector: KubeSpawner's reflector of events.
        :param name: the pod's name.
        """
        now = self._clock()
        sorted_at, by_pod = self._sorted.get(reflector, (-math.inf, {}))
        if now - sorted_at >= _SORTED_S:
            by_pod = _group_by_pod(reflector.resources.values())
            self._sorted[reflector] = now, by_pod
        return sorted(by_pod.get(name, ()), key=_read_time)


POD_EVENTS = PodEventIndex()
"""The object that all spawners of the hub share."""


def _group_by_pod(events: Iterable[PodEvent]) -> dict[str, list[PodEvent]]:
    found = defaultdict(list)
    for event in events:
        found[_read_pod_name(event)].append(event)
    return found


# The API server accepts events without the name of an object, and core/v1 events without a time:
# https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/apis/core/validation/events.go
def _read_pod_name(event: PodEvent) -> str:
    return as_text(as_dict(event.get("involvedObject")).get("name"))


def _read_time(event: PodEvent) -> str:
    return as_text(event.get("lastTimestamp")) or as_text(event.get("eventTime"))
