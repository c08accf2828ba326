"""Repairs what JupyterHub and KubeSpawner leave behind around a start that fails.

Lets servers start where the hub may not read events: people are told less then, and that they are.

KubeSpawner ends a start with "Forbidden", or the whole hub where users have namespaces of their own.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from jupyterhub.app import JupyterHub
from kubernetes_asyncio.client.rest import ApiException

from gpuspawner.hub.errors import COUNTS_REFUSALS
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.spawner_protocol import HubUser, WatchingSpawner


def _is_dead(reflector: Any) -> bool:
    """Tell whether one of KubeSpawner's reflectors no longer watches.

    KubeSpawner registers a reflector before its first list. When that fails (the API server is down), or when the watch
    gave up after half a minute, the dead one is handed out for good: every later server would start and never be seen.
    """
    watch = None if reflector is None else reflector.watch_task
    return reflector is not None and reflector.first_load_future.done() and (watch is None or watch.done())


def give_up_dead_reflectors(reflectors: Mapping[Any, Any]) -> None:
    """Have those that no longer watch replaced when somebody asks for them the next time.

    Not whenever somebody does: the hub looks at each server that runs twice a minute, and while the API server is down
    what was known last does better for that.
    """
    for reflector in reflectors.values():
        if _is_dead(reflector):
            reflector.is_given_up = True


def is_given_up(reflector: Any) -> bool:
    """Tell whether a reflector is to be replaced."""
    return bool(getattr(reflector, "is_given_up", False))


def make_takeover_reflector(kind: Callable[..., Any], before: Any) -> Callable[..., Any]:
    """Return what makes a reflector in the place of another, and knows what that one knew until it has read more.

    Starts that wait for their pods look at whatever reflector there is, and take a pod that is not there for gone.
    """

    def make(**options: Any) -> Any:
        made = kind(**options)
        made.resources = before.resources
        return made

    return make


@contextmanager
def unregister_failed_reflector(reflectors: MutableMapping[Any, Any], key: Any) -> Iterator[None]:
    """Let nobody wait for a reflector whose first list was cancelled, nor go by one that failed where another watches.

    KubeSpawner starts the watches of pods and events together and cancels one when the other fails. What was cancelled
    stays registered and would be waited for in vain, by the clean-up of this start and by every start after it.

    It also replaces a watch after a server took too long to start or to stop, as servers do when the API server is not
    well. When that fails, the one that was to be replaced goes on and still knows what runs. One that is dead stays
    replaced: what it knew is old, and the list that failed says so.
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
    """Return what a reflector's first list failed with, None where it did not.

    asyncio reports an exception that nobody asked for when the future goes, in the hub's log and without a word of what
    it belongs to. Whoever waited for the list has seen it, and so has the log.
    """
    first: asyncio.Future[None] = reflector.first_load_future
    # It is cancelled when one of those who waited gave up while others waited for it as well.
    return None if not first.done() or first.cancelled() else first.exception()


async def wait_for_first_list(reflectors: Mapping[Any, Any], key: Any) -> None:
    """Wait until a reflector that somebody else is starting has read its first list; there may be none.

    KubeSpawner awaits the one future that everybody waits for, and whoever stopped waiting cancelled it: one person who
    cancelled a start ended all others that had just begun, and JupyterHub answered each of them with 500. Where it was
    the one that read the list who gave up, somebody else has to read it.

    :raises Exception: what the list failed with.
    """
    while key in reflectors and not (first := reflectors[key].first_load_future).done():
        await asyncio.wait([first])
        if key in reflectors and reflectors[key].first_load_future is first:
            first.result()


def forgive_refused_start(user: HubUser) -> None:
    """Take a refused start out of JupyterHub 5's count of consecutive failures, before it is added.

    JupyterHub 5 counts each start that ends with an exception, whosever mistake it is, and ends the hub at
    ``consecutive_failure_limit`` (5 under zero-to-jupyterhub): five wrong REST requests would restart it for everybody.
    """
    if COUNTS_REFUSALS:
        counting = _find_handler_settings() or user.settings
        counting["failure_count"] = counting.get("failure_count", 0) - 1


def _find_handler_settings() -> MutableMapping[str, Any] | None:
    """Return the settings in which JupyterHub's handlers count failures; None outside of a hub.

    A user has the settings that the web application was made of, and tornado has its own copy of those.
    """
    if not JupyterHub.initialized():
        return None
    settings: MutableMapping[str, Any] = JupyterHub.instance().tornado_application.settings
    return settings


EVENTS_DENIED_S = 60.0
"""For how long they are not asked for again after a refusal, each of which is a line in the audit log."""


class EventsAccess:
    """One for the hub's process, which says once that events cannot be read.

    :param clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._denied_until: dict[Any, float] = {}
        """By key of KubeSpawner's reflectors; those that were told of in the log, and have not been read since."""

    async def start_events_reflector(self, spawner: WatchingSpawner, start: Callable[[], Awaitable[Any]]) -> Any:
        """Have events watched; return the reflector, None where the hub may not.

        :param start: KubeSpawner's own way to begin, or to find what watches already.
        """
        key = private_api.get_reflector_key(spawner, "events")
        if self._clock() < self._denied_until.get(key, -math.inf):
            return None
        try:
            reflector = await start()
        except (ApiException, SystemExit):  # KubeSpawner ends the hub where it would watch all namespaces
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
    """Return what makes a reflector of events that gives up without ending the hub.

    Where users have namespaces of their own, KubeSpawner ends the hub with a watch that gives up, as one does half a
    minute after the right to it is withdrawn. The next start finds out what is the matter, see :class:`EventsAccess`.
    """

    def make(**options: Any) -> Any:
        return kind(**{**options, "on_failure": None})

    return make


def _is_denied(reflector: Any) -> bool:
    """Tell whether the API server refused a reflector's first list to whoever the hub is."""
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
