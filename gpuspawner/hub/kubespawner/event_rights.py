"""Lets servers start where the hub may not read events: people are told less then, and that they are.

KubeSpawner ends a start with "Forbidden", or the whole hub where users have namespaces of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client.rest import ApiException

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

    async def start_events_reflector(self, spawner: Any, start: Callable[[], Awaitable[Any]]) -> Any:
        """Have events watched; return the reflector, None where the hub may not.

        :param start: KubeSpawner's own way to begin, or to find what watches already.
        """
        key = spawner._get_reflector_key("events")
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


def _log_denied(spawner: Any) -> None:
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
