"""Why a pod does not run, from its status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpuspawner.core.rawjson import as_dict, as_dicts, as_int, as_text

_STARTING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
_FRESH_START = timedelta(minutes=2)
_CRASH_LOOP_RESTARTS = 2
"""Restarts from which on a container that has just been started is not taken for well."""


def find_pod_trouble(pod: Mapping[str, object], *, now: datetime) -> str:
    """Return why a pod does not run, a word or two; empty where it does, or may yet.

    :param now: with its time zone.
    """
    status = as_dict(pod.get("status"))
    for each in (*as_dicts(status.get("initContainerStatuses")), *as_dicts(status.get("containerStatuses"))):
        state = as_dict(each.get("state"))
        reason = as_text(as_dict(state.get("waiting")).get("reason"))
        if reason not in _STARTING_REASONS:
            return reason
        if as_dict(state.get("terminated")).get("exitCode") not in (None, 0):
            return "Error"
        if _has_crashed(each, now=now):
            return "crashes again and again"
    return as_text(status.get("reason")) if status.get("phase") == "Failed" else ""


def _has_crashed(container: Mapping[str, object], *, now: datetime) -> bool:
    """Tell whether a container runs between two crashes: the kubelet says then that it is well."""
    last = as_dict(as_dict(container.get("lastState")).get("terminated"))
    started = parse_timestamp(as_dict(as_dict(container.get("state")).get("running")).get("startedAt"))
    is_fresh = started is not None and now - started < _FRESH_START
    return (
        is_fresh
        and last.get("exitCode") not in (None, 0)
        and (as_int(container.get("restartCount")) or 0) >= _CRASH_LOOP_RESTARTS
    )


def parse_timestamp(raw: object) -> datetime | None:
    """Return a time as Kubernetes writes it, None where it is none, or has no time zone."""
    try:
        found = datetime.fromisoformat(as_text(raw))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
