"""Selects the events of one pod from all events that KubeSpawner's reflector holds."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

PodEvent = Mapping[str, Any]
"""JSON of a Kubernetes v1 Event, as KubeSpawner's reflector holds it."""

_SORTED_S = 0.9
"""Seconds for which the index stays valid: slightly less than the second between two observations of a start."""


def select_pod_events(events: Iterable[PodEvent], name: str, *, after: str | None) -> list[PodEvent]:
    """Return a pod's events, oldest first.

    The result equals that of ``KubeSpawner.events``. That property sorts the events of all pods, which is a
    hundredth of a start's CPU time when twenty servers start at once, and more in a larger hub.

    :param events: the events of all pods.
    :param name: the pod's name.
    :param after: uid of an event; only later events are returned. If it is None or not found, all are returned.
    """
    own = sorted((event for event in events if event["involvedObject"]["name"] == name), key=_read_time)
    last = max((place for place, event in enumerate(own, 1) if event["metadata"]["uid"] == after), default=0)
    return own[last:]


class PodEventIndex:
    """Groups the events of a reflector by pod at most once a second, for all starts and pages.

    :param clock: returns monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sorted: WeakKeyDictionary[Any, tuple[float, dict[str, list[PodEvent]]]] = WeakKeyDictionary()

    def list_events(self, reflector: Any, name: str) -> list[PodEvent]:
        """Return a pod's events, oldest first, from an index that is at most a second old.

        :param reflector: KubeSpawner's reflector of events.
        :param name: the pod's name.
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
