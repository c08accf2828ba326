"""Keeps KubeSpawner's reflectors usable after failures, and lets servers start without the right to read events.

Without that right, KubeSpawner ends each start with "Forbidden", or the whole hub where each user has a namespace.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner_protocol import WatchingSpawner


def _is_dead(reflector: Any) -> bool:
    """Return whether a reflector no longer watches.

    KubeSpawner registers a reflector before its first list, and keeps it when that list fails or the watch gives up
    after half a minute. Every later start would use the dead reflector and never see its pod.
    """
    watch = None if reflector is None else reflector.watch_task
    return reflector is not None and reflector.first_load_future.done() and (watch is None or watch.done())


def give_up_dead_reflectors(reflectors: Mapping[Any, Any]) -> None:
    """Mark dead reflectors, so that the next start of a reflector replaces them.

    Polls do not call this: the hub polls each running server twice a minute, and while the API server is down the last
    known pods are the better answer.

    :param reflectors: KubeSpawner's, by kind and namespace.
    """
    for reflector in reflectors.values():
        if _is_dead(reflector):
            reflector.is_given_up = True


def is_given_up(reflector: Any) -> bool:
    """Return whether a reflector is marked to be replaced.

    :param reflector: one of KubeSpawner's, or None.
    """
    return bool(getattr(reflector, "is_given_up", False))


def make_takeover_reflector(kind: Callable[..., Any], before: Any) -> Callable[..., Any]:
    """Return a factory for a reflector that holds its predecessor's resources until its own first list.

    A start that waits for its pod takes a pod that is missing in the reflector for deleted.

    :param kind: KubeSpawner's reflector class, or another factory.
    :param before: the predecessor.
    """

    def make(**options: Any) -> Any:
        made = kind(**options)
        made.resources = before.resources
        return made

    return make


@contextmanager
def unregister_failed_reflector(reflectors: MutableMapping[Any, Any], key: Any) -> Iterator[None]:
    """Unregister a reflector whose first list is cancelled or fails inside; keep its predecessor if that still watches.

    KubeSpawner starts the reflectors of pods and events together and cancels one when the other fails. The cancelled
    one stays registered, and the clean-up of this start and every later start would wait for its first list forever.

    KubeSpawner also replaces a reflector after a server was slow to start or stop, for example because the API server
    is overloaded. If the new one fails, the predecessor goes on. A dead predecessor stays replaced: its pods are old.

    :param reflectors: KubeSpawner's, by kind and namespace.
    :param key: of the reflector that is started inside.
    """
    before = reflectors.get(key)
    try:
        yield
    except BaseException:
        made = reflectors.get(key)
        if made is not None and made is not before:
            if not made.first_load_future.done():
                if before is None:
                    del reflectors[key]
                else:
                    reflectors[key] = before
                made.first_load_future.set_exception(TimeoutError("Could not watch what was started."))
            elif before is not None and _is_dead(made) and not _is_dead(before):
                reflectors[key] = before
            _retrieve_failure(made)
        raise


def _retrieve_failure(reflector: Any) -> BaseException | None:
    """Return the exception of a reflector's first list, or None.

    Retrieving it keeps asyncio from logging it again, without context, when the future is garbage collected.
    """
    first: asyncio.Future[None] = reflector.first_load_future
    # A cancelled waiter cancels the future also for the others.
    return None if not first.done() or first.cancelled() else first.exception()


async def wait_for_first_list(reflectors: Mapping[Any, Any], key: Any) -> None:
    """Wait until a reflector that another start has begun has read its first list; return at once without one.

    KubeSpawner itself awaits the shared future of the first list, so a cancelled start cancels the future: all starts
    that wait for it fail, and JupyterHub answers each with 500. This waits without cancelling. If the start that reads
    the list is cancelled, this returns, and the caller starts the reflector again.

    :param reflectors: KubeSpawner's, by kind and namespace.
    :param key: of the reflector.
    :raises Exception: the exception of the first list.
    """
    while key in reflectors and not (first := reflectors[key].first_load_future).done():
        await asyncio.wait([first])
        if key in reflectors and reflectors[key].first_load_future is first:
            first.result()


EVENTS_DENIED_S = 60.0
"""Seconds between two requests for events after the API server refused one: each refusal is a line in its audit log."""


class EventsAccess:
    """Starts the reflector of events, and does without where the hub may not read events; one for the hub's process.

    The hub's log says so once for each namespace.

    :param clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._denied_until: dict[Any, float] = {}
        """Monotonic seconds until which the hub does not ask again, by reflector key; kept until events are read."""

    async def start_events_reflector(self, spawner: WatchingSpawner, start: Callable[[], Awaitable[Any]]) -> Any:
        """Return the running reflector of events, or None where the hub may not read events.

        :param spawner: any spawner of the namespace.
        :param start: KubeSpawner's method that starts the reflector or returns the one there is.
        """
        key = private_api.get_reflector_key(spawner, "events")
        if self._clock() < self._denied_until.get(key, -math.inf):
            return None
        try:
            reflector = await start()
        except (ApiException, SystemExit):  # KubeSpawner ends the hub where its watch of all namespaces fails
            if not _is_denied(type(spawner).reflectors.get(key)):
                raise
            if key not in self._denied_until:
                _log_denied(spawner)
            self._denied_until[key] = self._clock() + EVENTS_DENIED_S
            return None
        if self._denied_until.pop(key, None) is not None:
            spawner.log.warning("The hub may read events again.")
        return reflector


def make_nonfatal_reflector(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return a factory for a reflector that does not end the hub when its watch gives up.

    Where each user has a namespace, KubeSpawner ends the hub when a watch gives up, half a minute after the hub lost
    the right to it. The next start handles the missing right, see :class:`EventsAccess`.

    :param kind: KubeSpawner's reflector class, or another factory.
    """

    def make(**options: Any) -> Any:
        return kind(**{**options, "on_failure": None})

    return make


def _is_denied(reflector: Any) -> bool:
    """Return whether the API server answered a reflector's first list with 403."""
    first = None if reflector is None else reflector.first_load_future
    if first is None or not first.done() or first.cancelled():
        return False
    return getattr(first.exception(), "status", None) == HTTPStatus.FORBIDDEN


def _log_denied(spawner: WatchingSpawner) -> None:
    if spawner.enable_user_namespaces:
        where, role = "all namespaces", "gpuspawner-user-namespaces in docs/security.md"
    else:
        where, role = f"the namespace {spawner.namespace}", "gpuspawner-hub in helm-values/rbac.yaml"
    spawner.log.warning(
        "The hub may not list events in %s. Servers start all the same, but people may not be told why one waits. What"
        " is missing is `list` and `watch` of `events`: the role %s has it. With"
        " KubeSpawner.events_enabled: false nobody asks for them.",
        where,
        role,
    )
