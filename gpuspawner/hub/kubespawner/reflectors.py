"""Keeps KubeSpawner's reflectors usable after failures, and lets servers start if the hub may not read events.

With KubeSpawner alone, each start fails with "Forbidden" if the hub may not read events. If each user has a namespace,
KubeSpawner also stops the hub when a reflector fails, for example during an outage of the API server.
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
from gpuspawner.hub.spawner_protocol import HubSpawner


def _is_dead(reflector: Any) -> bool:
    """Return whether a reflector no longer watches.

    KubeSpawner registers a reflector before the reflector's first list. The reflector stays registered if the list
    fails, or if the watch gives up after half a minute of errors. Later starts would use the dead reflector and never
    see their pod.
    """
    watch = None if reflector is None else reflector.watch_task
    return reflector is not None and reflector.first_load_future.done() and (watch is None or watch.done())


def give_up_dead_reflectors(reflectors: Mapping[Any, Any]) -> None:
    """Mark each reflector that no longer watches, so that the next ``KubeSpawner._start_reflector`` replaces it.

    Call this before a start, a stop or a form uses a reflector, but not in ``poll()``: while the API server is down,
    ``poll()`` uses the last known pods to decide whether a server runs.

    :param reflectors: KubeSpawner's reflectors, by kind and namespace.
    """
    for reflector in reflectors.values():
        if _is_dead(reflector):
            reflector.is_given_up = True


def is_given_up(reflector: Any) -> bool:
    """Return whether a reflector is marked to be replaced.

    :param reflector: a reflector of KubeSpawner, or None.
    """
    return bool(getattr(reflector, "is_given_up", False))


def measure_first_list_s(reflector: Any) -> float:
    """Return for how many seconds a reflector has been reading its first list.

    The result is 0 if the list was read or has failed, or if ``reflector`` is None.

    :param reflector: a reflector of KubeSpawner, or None if KubeSpawner has not started one.
    """
    if reflector is None or reflector.first_load_future.done():
        return 0.0
    now = time.monotonic()
    return now - float(getattr(reflector, "begun_at", now))


@contextmanager
def unregister_failed_reflector(
    reflectors: MutableMapping[Any, Any], key: Any, *, spares_hub: bool = False
) -> Iterator[None]:
    """Correct ``reflectors`` after a reflector failed to start in the ``with`` block.

    - KubeSpawner starts the reflectors of pods and events together, and cancels one if the other fails. KubeSpawner
      keeps the cancelled reflector registered, and later starts would wait forever for its first list. This context
      manager unregisters the cancelled reflector and registers its predecessor, if any, again.
    - If a reflector's first list fails while the predecessor still watches, this context manager registers the
      predecessor again. Otherwise the failed reflector stays registered, and the next start replaces it.

    :param reflectors: KubeSpawner's reflectors, by kind and namespace.
    :param key: key of the reflector that the ``with`` block starts.
    :param spares_hub: True to raise the reflector's failure instead of KubeSpawner's ``SystemExit``, which stops the
        hub. Pass False for a poll: JupyterHub would otherwise consider the servers that it cannot poll stopped.
    """
    before = reflectors.get(key)
    try:
        yield
    except BaseException as error:
        failure = None
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
            failure = _retrieve_failure(made)
        if spares_hub and isinstance(error, SystemExit) and failure is not None:
            raise failure from None
        raise


def _retrieve_failure(reflector: Any) -> BaseException | None:
    """Return the exception of a reflector's first list, or None.

    asyncio logs the exception of a future only if no code retrieves it, so this call also keeps it out of the log.
    """
    first: asyncio.Future[None] = reflector.first_load_future
    # exception() of a cancelled future raises CancelledError.
    return None if not first.done() or first.cancelled() else first.exception()


async def wait_for_first_list(reflectors: Mapping[Any, Any], key: Any) -> None:
    """Wait while a reflector reads its first list; return at once if no reflector with this key is reading one.

    In KubeSpawner, all starts await one future of the first list. If one of the starts is cancelled, it cancels this
    future, and the other starts fail with HTTP status 500. A start that waits with this function never cancels it.
    If the start that reads the list is cancelled, this function returns, and the caller starts the reflector again.

    :param reflectors: KubeSpawner's reflectors, by kind and namespace.
    :param key: key of the reflector.
    :raises Exception: the first list failed with this exception.
    """
    while key in reflectors and not (first := reflectors[key].first_load_future).done():
        await asyncio.wait([first])
        if key in reflectors and reflectors[key].first_load_future is first:
            first.result()


EVENTS_DENIED_S = 60.0
"""Seconds for which the hub does not request a namespace's events again after the API server has refused a request.

Each refusal adds a line to Kubernetes' audit log."""


class EventsAccess:
    """Starts KubeSpawner's reflector of events if the hub may read events. All spawners share one object of this class.

    If the hub may not read the events of a namespace, the class logs one warning for this namespace. The class repeats
    the warning only if the hub was allowed to read these events in between.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._denied_until: dict[Any, float] = {}
        """Key of a reflector of events → monotonic seconds before which the hub does not request events again."""

    async def start_events_reflector(self, spawner: HubSpawner, start: Callable[[], Awaitable[Any]]) -> Any:
        """Start the reflector of events unless it runs, and return it; None if the hub may not read events.

        :param spawner: any spawner of the namespace.
        :param start: KubeSpawner's method that starts the reflector or returns the running reflector.
        """
        key = private_api.get_reflector_key(spawner, "events")
        if self._clock() < self._denied_until.get(key, -math.inf):
            return None
        try:
            reflector = await start()
        except (ApiException, SystemExit):  # KubeSpawner raises SystemExit if it cannot watch all namespaces.
            if not _is_denied(type(spawner).reflectors.get(key)):
                raise
            if key not in self._denied_until:
                _log_denied(spawner)
            self._denied_until[key] = self._clock() + EVENTS_DENIED_S
            return None
        if self._denied_until.pop(key, None) is not None:
            spawner.log.warning("The hub may read events again.")
        return reflector


def make_lasting_reflector(kind: Callable[..., Any], *, before: Any) -> Callable[..., Any]:
    """Return a factory for a reflector that does not stop the hub, and has its predecessor's pods or events at first.

    If each user has a namespace, KubeSpawner stops the hub when a watch gives up, half a minute after the API server
    went down or the hub lost the permission to watch. With this factory, the hub goes on, and the next start replaces
    the reflector. Until the first list of the new reflector ends, it has what its predecessor had: an empty reflector
    would end starts in progress, because KubeSpawner considers a missing pod deleted.

    The factory also stores the current time in the reflector, for :func:`measure_first_list_s`.

    :param kind: KubeSpawner's reflector class, or another factory of reflectors.
    :param before: the predecessor that the new reflector replaces; None if it replaces none.
    """

    def make(**options: Any) -> Any:
        made = kind(**{**options, "on_failure": None})
        made.begun_at = time.monotonic()
        if before is not None:
            made.resources = before.resources
        return made

    return make


def _is_denied(reflector: Any) -> bool:
    first = None if reflector is None else reflector.first_load_future
    if first is None or not first.done() or first.cancelled():
        return False
    return getattr(first.exception(), "status", None) == HTTPStatus.FORBIDDEN


def _log_denied(spawner: HubSpawner) -> None:
    if spawner.enable_user_namespaces:
        where, role = "all namespaces", "gpuspawner-user-namespaces in docs/security.md"
    else:
        where, role = f"the namespace {spawner.namespace}", "gpuspawner-hub in helm-values/rbac.yaml"
    spawner.log.warning(
        "The hub may not list events in %s. Servers start all the same, but users may not see why a server waits. The"
        " hub lacks the right to `list` and `watch` `events`: the role %s has it. With"
        " KubeSpawner.events_enabled: false, the hub does not ask for events.",
        where,
        role,
    )
