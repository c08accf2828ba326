"""The hub's pods: which of them are the hub now, and why one of those serves nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from gpuspawner.cli.doctor.pod_troubles import time_of, trouble_of
from gpuspawner.core.rawjson import mapping, mappings, text

_ENDED = frozenset({"Failed", "Succeeded"})
_PATIENCE = timedelta(minutes=2)
"""For a start: a hub reads its database, and asks its proxy, before it is ready."""


def living(pods: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Return the pods that are the hub, the one that serves first.

    An evicted pod stays as Failed beside the one that took its place, and one on a lost node is being deleted for
    long: where there is another one they are not the hub any more.
    """
    found = tuple(pods)
    alive = [pod for pod in found if not _is_leaving(pod)]
    return tuple(sorted(alive or found, key=lambda pod: (_phase(pod) != "Running", not _is_ready(pod))))


def hub_trouble(pod: Mapping[str, object], *, now: datetime) -> str:
    """Return why a hub's pod serves nobody, in a few words; empty where it does, or may yet.

    :param now: with its time zone.
    """
    if trouble := trouble_of(pod, now=now):
        return trouble
    if _phase(pod) in _ENDED:
        return "it has ended"
    placed = _condition(pod, "PodScheduled")
    if placed.get("status") == "False" and placed.get("reason") == "Unschedulable":
        return f"Unschedulable, {text(placed.get('message')).rstrip('.') or 'no node takes it'}"
    since = _unready_since(pod)
    if since is None or now - since <= _PATIENCE:
        return ""
    state = "not Ready" if _phase(pod) == "Running" else _phase(pod) or "not Ready"
    return f"{state} for {int((now - since).total_seconds() // 60)} minutes"


def _unready_since(pod: Mapping[str, object]) -> datetime | None:
    """Return since when a pod is not ready; None where it is, or where that is not told."""
    ready = _condition(pod, "Ready")
    if ready.get("status") == "True":
        return None
    created = mapping(pod.get("metadata")).get("creationTimestamp")
    return time_of(ready.get("lastTransitionTime")) or time_of(created)


def _is_leaving(pod: Mapping[str, object]) -> bool:
    return _phase(pod) in _ENDED or bool(mapping(pod.get("metadata")).get("deletionTimestamp"))


def _is_ready(pod: Mapping[str, object]) -> bool:
    return _condition(pod, "Ready").get("status") == "True"


def _phase(pod: Mapping[str, object]) -> str:
    return text(mapping(pod.get("status")).get("phase"))


def _condition(pod: Mapping[str, object], kind: str) -> Mapping[str, object]:
    conditions = mappings(mapping(pod.get("status")).get("conditions"))
    return next((each for each in conditions if each.get("type") == kind), {})
