"""When a server with a run time ends, told from its pod as the API server sends it.

Kubernetes counts ``activeDeadlineSeconds`` from ``status.startTime``, when the pod's node took it; before, nothing runs
out. https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#detailed-behavior
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gpuspawner.core.rawjson import mapping, text, whole
from gpuspawner.core.request.placement import ANNOTATION_PREFIX

RUN_TIME = f"{ANNOTATION_PREFIX}run-time-seconds"
"""Annotation of a pod whose time is limited: so many seconds from when its node took it."""

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


def run_time_s(pod: Mapping[str, object]) -> int | None:
    """Return after how many seconds a pod ends, None where nothing says so.

    What Kubernetes enforces counts; the annotation stands in where something has taken that from the pod.
    """
    enforced = whole(mapping(pod.get("spec")).get("activeDeadlineSeconds"))
    if enforced is not None:
        return enforced
    told = text(mapping(mapping(pod.get("metadata")).get("annotations")).get(RUN_TIME))
    return int(told) if _SECONDS.fullmatch(told) else None


def ends_at(pod: Mapping[str, object]) -> datetime | None:
    """Return when a pod ends, None while no node has taken it, and where it runs on."""
    seconds = run_time_s(pod)
    began = text(mapping(pod.get("status")).get("startTime"))
    if seconds is None or not began:
        return None
    try:
        start = datetime.fromisoformat(began)
        return (start if start.tzinfo else start.replace(tzinfo=UTC)) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
