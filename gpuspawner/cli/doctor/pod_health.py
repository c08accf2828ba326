"""Derives from the status of pods why a pod does not run, and which of several hub pods are current."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_message, as_text, find_condition

_STARTING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
_FRESH_START = timedelta(minutes=2)
_CRASH_LOOP_RESTARTS = 2
"""Smallest number of restarts with which a running container counts as crashing.

The container must also have started less than ``_FRESH_START`` ago, and its previous run must have failed.
"""


def find_pod_trouble(pod: Mapping[str, object], *, now: datetime) -> str:
    """Return in a few words why a pod's containers fail, or "" if the pod's status shows no failure.

    :param now: current time with time zone.
    """
    status = as_dict(pod.get("status"))
    for container in (*as_dicts(status.get("initContainerStatuses")), *as_dicts(status.get("containerStatuses"))):
        state = as_dict(container.get("state"))
        reason = as_text(as_dict(state.get("waiting")).get("reason"))
        if reason not in _STARTING_REASONS:
            return reason
        if as_dict(state.get("terminated")).get("exitCode") not in (None, 0):
            return "Error"
        if _has_crashed(container, now=now):
            return "crashes again and again"
    return as_text(status.get("reason")) if status.get("phase") == "Failed" else ""


def _has_crashed(container: Mapping[str, object], *, now: datetime) -> bool:
    """Return whether a container crashes repeatedly although its state is currently "running"."""
    last = as_dict(as_dict(container.get("lastState")).get("terminated"))
    started = parse_timestamp(as_dict(as_dict(container.get("state")).get("running")).get("startedAt"))
    is_fresh = started is not None and now - started < _FRESH_START
    return (
        is_fresh
        and last.get("exitCode") not in (None, 0)
        and (as_int(container.get("restartCount")) or 0) >= _CRASH_LOOP_RESTARTS
    )


def parse_timestamp(raw: object) -> datetime | None:
    """Return a Kubernetes timestamp as a ``datetime``, or None if it cannot be parsed or has no time zone."""
    try:
        found = datetime.fromisoformat(as_text(raw))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


_ENDED_PHASES = frozenset({"Failed", "Succeeded"})
_START_GRACE = timedelta(minutes=2)
"""A hub's pod counts as failing if it has been unready for longer than this time.

A new hub needs time: it first reads its database and queries its proxy.
"""


def list_live_hub_pods(pods: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Return the hub's current pods, a ready pod first.

    The result leaves out pods that have ended or are being deleted, unless the hub has no other pods.
    """
    all_pods = tuple(pods)
    current = [pod for pod in all_pods if not _is_leaving(pod)]
    return tuple(sorted(current or all_pods, key=lambda pod: (_get_phase(pod) != "Running", not _is_ready(pod))))


def find_hub_trouble(pod: Mapping[str, object], *, now: datetime) -> str:
    """Return in a few words why a hub's pod is not ready, or "" if it is ready or starting.

    :param now: current time with time zone.
    """
    if trouble := find_pod_trouble(pod, now=now):
        return trouble
    if _get_phase(pod) in _ENDED_PHASES:
        return "it has ended"
    placed = find_condition(pod, "PodScheduled")
    if placed.get("status") == "False" and placed.get("reason") == "Unschedulable":
        return f"Unschedulable, {as_message(placed.get('message')).rstrip('.') or 'no node takes it'}"
    since = _find_unready_since(pod)
    if since is None or now - since <= _START_GRACE:
        return ""
    state = "not Ready" if _get_phase(pod) == "Running" else _get_phase(pod) or "not Ready"
    return f"{state} for {int((now - since).total_seconds() // 60)} minutes"


def _find_unready_since(pod: Mapping[str, object]) -> datetime | None:
    ready = find_condition(pod, "Ready")
    if ready.get("status") == "True":
        return None
    created = as_dict(pod.get("metadata")).get("creationTimestamp")
    return parse_timestamp(ready.get("lastTransitionTime")) or parse_timestamp(created)


def _is_leaving(pod: Mapping[str, object]) -> bool:
    return _get_phase(pod) in _ENDED_PHASES or bool(as_dict(pod.get("metadata")).get("deletionTimestamp"))


def _is_ready(pod: Mapping[str, object]) -> bool:
    return find_condition(pod, "Ready").get("status") == "True"


def _get_phase(pod: Mapping[str, object]) -> str:
    return as_text(as_dict(pod.get("status")).get("phase"))
