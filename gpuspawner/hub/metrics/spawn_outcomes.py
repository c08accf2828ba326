"""What became of a start, in one word for a metric: ``ready``, or a code of a closed list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tornado import web

from gpuspawner.hub.errors import ClusterFailure, RefusedStart

READY = "ready"
CANCELLED = "cancelled"

_AT_ONCE_S = 10.0
"""Until a pod has its node, where there is room: kube-scheduler takes a second, ten when very many start at once."""


def classify_outcome(error: BaseException | None) -> str:
    """Return how a start ended.

    :param error: what it ended with; only codes of our own are taken from it.
    """
    match error:
        case None:
            return READY
        case asyncio.CancelledError():
            return CANCELLED
        case RefusedStart():
            return error.code
        case ClusterFailure():
            return "cluster"
        case TimeoutError():
            return "timeout"
        case web.HTTPError() if error.status_code < 500:  # noqa: PLR2004
            return "refused"
    return "error"


def classify_verdict(outcome: str, *, refused: bool, waited_s: float | None) -> str:
    """Return what came of a verdict.

    :param outcome: how the start ended.
    :param refused: nothing was created.
    :param waited_s: seconds until the pod had a node; None when it never had one.
    """
    if outcome == CANCELLED:
        return CANCELLED
    if outcome == READY:
        return "waited" if (waited_s or 0.0) > _AT_ONCE_S else READY
    if refused:
        return "refused"
    return "no_node" if waited_s is None else "failed"


def measure_wait_s(pod: Mapping[str, Any] | None) -> float | None:
    """Return the seconds a pod waited for its node, None while it has none.

    :param pod: as the API server sends it.
    """
    if not pod or not (pod.get("spec") or {}).get("nodeName"):
        return None
    conditions = (pod.get("status") or {}).get("conditions") or []
    bound = next((each.get("lastTransitionTime") for each in conditions if each.get("type") == "PodScheduled"), None)
    created = (pod.get("metadata") or {}).get("creationTimestamp")
    if not bound or not created:
        return 0.0
    return max(0.0, (datetime.fromisoformat(bound) - datetime.fromisoformat(created)).total_seconds())
