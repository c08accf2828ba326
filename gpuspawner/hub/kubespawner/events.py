"""Events of one pod among those of its namespace, which Kubernetes keeps for an hour."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

PodEvent = Mapping[str, Any]
"""A v1 Event as KubeSpawner's reflector holds it."""

_SORTED_S = 0.9
"""Seconds for which events stay sorted: less than the second after which somebody looks again."""


def select_pod_events(events: Iterable[PodEvent], name: str, *, after: str | None) -> list[PodEvent]:
    """Return a pod's events in the order they happened.

    What KubeSpawner's ``events`` returns, which sorts those of all pods first: a hundredth of the work of a start where
    twenty servers start at once, and more in a larger hub.

    :param after: uid of an event; only what came after it counts. None, and one that is not there: all do.
    """
    own = sorted((event for event in events if event["involvedObject"]["name"] == name), key=_read_time)
    last = max((place for place, event in enumerate(own, 1) if event["metadata"]["uid"] == after), default=0)
    return own[last:]


class PodEventIndex:
    """Sorts the events of a watch by pod once a second, for all servers that start and everybody who looks at one.

    :param clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sorted: WeakKeyDictionary[Any, tuple[float, dict[str, list[PodEvent]]]] = WeakKeyDictionary()

    def list_events(self, reflector: Any, name: str) -> list[PodEvent]:
        """Return a pod's events, oldest first, as they were a second ago at most.

        :param reflector: KubeSpawner's, which watches events.
        """
        now = self._clock()
        sorted_at, by_pod = self._sorted.get(reflector, (-math.inf, {}))
        if now - sorted_at >= _SORTED_S:
            by_pod = _group_by_pod(reflector.resources.values())
            self._sorted[reflector] = now, by_pod
        return sorted(by_pod.get(name, ()), key=_read_time)


def _group_by_pod(events: Iterable[PodEvent]) -> dict[str, list[PodEvent]]:
    found = defaultdict(list)
    for event in events:
        found[event["involvedObject"]["name"]].append(event)
    return found


def _read_time(event: PodEvent) -> str:
    return str(event["lastTimestamp"] or event["eventTime"])
