"""Why a pod does not run, from its status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpuspawner.core.rawjson import mapping, mappings, text, whole

_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
_FRESH = timedelta(minutes=2)
_AGAIN = 2
"""Restarts from which on a container that has just been started is not taken for well."""


def trouble_of(pod: Mapping[str, object], *, now: datetime) -> str:
    """Return why a pod does not run, a word or two; empty where it does, or may yet.

    :param now: with its time zone.
    """
    status = mapping(pod.get("status"))
    for each in (*mappings(status.get("initContainerStatuses")), *mappings(status.get("containerStatuses"))):
        state = mapping(each.get("state"))
        reason = text(mapping(state.get("waiting")).get("reason"))
        if reason not in _STARTING:
            return reason
        if mapping(state.get("terminated")).get("exitCode") not in (None, 0):
            return "Error"
        if _has_crashed(each, now=now):
            return "crashes again and again"
    return text(status.get("reason")) if status.get("phase") == "Failed" else ""


def _has_crashed(container: Mapping[str, object], *, now: datetime) -> bool:
    """Tell whether a container runs between two crashes: the kubelet says then that it is well."""
    last = mapping(mapping(container.get("lastState")).get("terminated"))
    started = time_of(mapping(mapping(container.get("state")).get("running")).get("startedAt"))
    is_fresh = started is not None and now - started < _FRESH
    return is_fresh and last.get("exitCode") not in (None, 0) and (whole(container.get("restartCount")) or 0) >= _AGAIN


def time_of(raw: object) -> datetime | None:
    """Return a time as Kubernetes writes it, None where it is none, or has no time zone."""
    try:
        found = datetime.fromisoformat(text(raw))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
