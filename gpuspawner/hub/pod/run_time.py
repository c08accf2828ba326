"""Announces that a pod's maximum run time ends soon, and deletes the pod if Kubernetes does not end the pod in time.

The kubelet ends a pod after ``activeDeadlineSeconds``, but not if the node is gone. The hub then deletes the pod, so
that the user can start the server again. JupyterHub cannot show a message in an open notebook, so the hub announces the
end in its log and in JupyterHub's event log. The admin's own programs can read the event log and warn the user.

The kubelet counts ``activeDeadlineSeconds`` from ``status.startTime``, the time at which the kubelet accepted the pod.
The time for which a pod waits for a node therefore does not count.
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#detailed-behavior
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes_asyncio.client import V1EnvVar

from gpuspawner.core.cluster.model import NOTEBOOK
from gpuspawner.core.json_access import as_dict, as_int, as_text
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import find_pod
from gpuspawner.hub.pod.patch import RUN_TIME_ANNOTATION, read_variable_name
from gpuspawner.hub.spawner_protocol import HubSpawner

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


def read_run_time_s(pod: Mapping[str, object]) -> int | None:
    """Return the maximum run time of a pod in seconds, or None if it is unlimited.

    If the pod lacks ``activeDeadlineSeconds``, for example because a webhook removed this field, read gpuspawner's
    annotation instead.

    :param pod: JSON of the pod.
    """
    enforced = as_int(as_dict(pod.get("spec")).get("activeDeadlineSeconds"))
    if enforced is not None:
        return enforced
    annotation = as_text(as_dict(as_dict(pod.get("metadata")).get("annotations")).get(RUN_TIME_ANNOTATION))
    return int(annotation) if _SECONDS.fullmatch(annotation) else None


def find_end_time(pod: Mapping[str, object]) -> datetime | None:
    """Return when a pod's run time ends, or None if it has no end or the end is unknown.

    The end is unknown until the kubelet has accepted the pod, or if the pod's start time is invalid.

    :param pod: JSON of the pod.
    """
    seconds = read_run_time_s(pod)
    start_time = as_text(as_dict(pod.get("status")).get("startTime"))
    if seconds is None or not start_time:
        return None
    try:
        start = datetime.fromisoformat(start_time)
        return (start if start.tzinfo else start.replace(tzinfo=UTC)) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


WARNING_S = 15 * 60
"""The hub announces the end of a pod's run time when at most this many seconds are left."""
GRACE_S = 120
"""Seconds for which the hub waits for Kubernetes to end a pod whose run time is over. Then the hub deletes the pod.

If the pod's ``terminationGracePeriodSeconds`` is more than 60, the hub waits for that many seconds and 60 more."""
_MARGIN_S = 60
END_VARIABLE = "GPUSPAWNER_ENDS_AT"
"""Environment variable with the time before which the run time cannot end, in UTC (RFC 3339).

Kubernetes fixes a pod's environment when it creates the pod, so the variable cannot contain the exact end.
"""

SCHEMA_ID = "https://gpuspawner.jupyter.org/events/run-time-ending"
_SCHEMA = {
    "$id": SCHEMA_ID,
    "version": "1",
    "title": "A server's run time ends soon",
    "description": "Recorded once for each server with a run time, 15 minutes before its end or as soon as seen.",
    "personal-data": True,
    "type": "object",
    "required": ["username", "servername", "ends_at", "seconds_left"],
    "properties": {
        "username": {"type": "string", "description": "Whose server it is, by the name that JupyterHub uses."},
        "servername": {"type": "string", "description": "Which of the user's servers, empty for the default one."},
        "ends_at": {"type": "string", "format": "date-time", "description": "When Kubernetes ends it."},
        "seconds_left": {"type": "integer", "description": "Until then."},
    },
}


def add_end_time(pod: Any, *, now: datetime | None = None) -> None:
    """Add the environment variable :data:`END_VARIABLE` to the notebook container of a pod with a maximum run time.

    The run time cannot begin before the pod exists, so the time in the variable is never later than the end. Leave a
    variable of this name unchanged, which the admin or an earlier request for this pod has set.

    :param pod: the pod as a model of the Kubernetes client, right before the hub sends it.
    :param now: current time, for tests.
    """
    seconds, containers = pod.spec.active_deadline_seconds, pod.spec.containers
    if not isinstance(seconds, int) or not containers:
        return
    notebook = next((each for each in containers if getattr(each, "name", "") == NOTEBOOK), containers[0])
    variables = list(notebook.env or [])
    if any(read_variable_name(each) == END_VARIABLE for each in variables):
        return
    with suppress(OverflowError):
        end = (now or datetime.now(UTC)) + timedelta(seconds=seconds)
        notebook.env = [*variables, V1EnvVar(name=END_VARIABLE, value=f"{end:%Y-%m-%dT%H:%M:%SZ}")]


async def enforce_run_time(spawner: HubSpawner, *, now: datetime | None = None) -> int | None:
    """Announce the end of a server's run time, or stop the server.

    The hub announces the end once, in the last :data:`WARNING_S` seconds of the run time. It stops the server if the
    pod still exists a grace period (:data:`GRACE_S`) after the end.

    :param spawner: the server's spawner; its ``poll()`` calls this function.
    :param now: current time, for tests.
    :return: 1, the exit code for ``poll()``, if this function has stopped the server; else None.
    """
    pod = find_pod(spawner)
    end = find_end_time(pod) if pod is not None else None
    if pod is None or end is None:
        return None
    left_s = (end - (now or datetime.now(UTC))).total_seconds()
    if left_s > WARNING_S:
        return None
    uid = pod["metadata"].get("uid", "")
    if left_s > 0 and spawner.start_state.warned_pod_uid != uid:
        spawner.start_state.warned_pod_uid = uid
        _warn(spawner, end, left_s=left_s)
    if left_s > -_grace_s(pod):
        return None
    spawner.log.warning(
        "The run time of %s was over at %s and its pod is still there: it is deleted",
        private_api.get_log_name(spawner),
        end,
    )
    await spawner.stop(now=True)
    return 1


def _grace_s(pod: Mapping[str, Any]) -> float:
    own_s = as_int(as_dict(pod.get("spec")).get("terminationGracePeriodSeconds"))
    return max(GRACE_S, (own_s or 0) + _MARGIN_S)


def _warn(spawner: HubSpawner, end: datetime, *, left_s: float) -> None:
    spawner.log.info("%s ends at %s, when its run time is over", private_api.get_log_name(spawner), end.isoformat())
    eventlog = spawner.user.settings.get("eventlog")
    if eventlog is None:
        return
    if SCHEMA_ID not in eventlog.schemas:
        eventlog.register_event_schema(_SCHEMA)
    data = {
        "username": spawner.user.name,
        "servername": spawner.name,
        "ends_at": end.isoformat(),
        "seconds_left": int(left_s),
    }
    eventlog.emit(schema_id=SCHEMA_ID, data=data)
