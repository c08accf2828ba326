"""When a server with a run time ends, told from its pod as the API server sends it.

Kubernetes counts ``activeDeadlineSeconds`` from ``status.startTime``, when the pod's node took it; before, nothing runs
out. https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#detailed-behavior
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gpuspawner.core.json_access import as_dict, as_int, as_text
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX

RUN_TIME_ANNOTATION = f"{ANNOTATION_PREFIX}run-time-seconds"
"""Annotation of a pod whose time is limited: so many seconds from when its node took it."""

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


def read_run_time_s(pod: Mapping[str, object]) -> int | None:
    """Return after how many seconds a pod ends, None where nothing says so.

    What Kubernetes enforces counts; the annotation stands in where something has taken that from the pod.
    """
    enforced = as_int(as_dict(pod.get("spec")).get("activeDeadlineSeconds"))
    if enforced is not None:
        return enforced
    told = as_text(as_dict(as_dict(pod.get("metadata")).get("annotations")).get(RUN_TIME_ANNOTATION))
    return int(told) if _SECONDS.fullmatch(told) else None


def find_end_time(pod: Mapping[str, object]) -> datetime | None:
    """Return when a pod ends, None while no node has taken it, and where it runs on."""
    seconds = read_run_time_s(pod)
    began = as_text(as_dict(pod.get("status")).get("startTime"))
    if seconds is None or not began:
        return None
    try:
        start = datetime.fromisoformat(began)
        return (start if start.tzinfo else start.replace(tzinfo=UTC)) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
