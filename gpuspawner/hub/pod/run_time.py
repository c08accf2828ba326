"""Ends servers whose time is over where the cluster does not, and says beforehand that they will end.

Kubernetes ends the pod itself (``activeDeadlineSeconds``). The node has to be alive for that: a pod on one that is gone
would be the server of a person for good. So the hub ends it as well, a little later.

JupyterHub has no way to tell a person something who is in a notebook. What it has is its log and its event log, which a
site may send wherever it wants: that is where the warning goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from gpuspawner.core.json_access import as_dict, as_int
from gpuspawner.core.request.pod_requirements import PodRequirements
from gpuspawner.core.request.run_time import RUN_TIME_ANNOTATION, find_end_time
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.overrides import find_run_time
from gpuspawner.hub.spawner_protocol import PodWatchingSpawner, UserServer

WARNING_S = 15 * 60
"""Before the end."""
GRACE_S = 120
"""After the end, for Kubernetes and clocks that differ; more for a pod that has longer to end."""
_MARGIN_S = 60
RUN_TIME_VARIABLE = "GPUSPAWNER_RUN_TIME"
"""Holds the seconds that the server may run, for what runs in it."""

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


class WarnedStart(Protocol):
    """The state of a start.

    :ivar warned_pod_uid: uid of the pod whose end was announced, empty for none.
    """

    warned_pod_uid: str


class LimitedSpawner(UserServer, PodWatchingSpawner, Protocol):
    """A server whose run time may be limited."""

    @property
    def start_state(self) -> WarnedStart:
        """The state of the server's start."""

    async def stop(self, now: bool = False) -> None:
        """Stop the server."""


def add_run_time(placement: PodRequirements, admins: Mapping[str, Any] | None) -> PodRequirements:
    """Return a placement whose pod says how long it may run: in an annotation, and in a variable.

    :param admins: the admin's ``extra_pod_config``, whose run time may be shorter.
    """
    seconds = find_run_time(admins, placement)
    if seconds is None:
        return placement
    return replace(
        placement,
        annotations={**placement.annotations, RUN_TIME_ANNOTATION: str(seconds)},
        environment={**placement.environment, RUN_TIME_VARIABLE: str(seconds)},
    )


async def enforce_run_time(spawner: LimitedSpawner, *, now: datetime | None = None) -> int | None:
    """Warn of the end of a server that runs, and end it when Kubernetes should have; called at each poll.

    :return: an exit code when the server was ended, None when it runs.
    """
    reflector = spawner.pod_reflector
    pod = reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}") if reflector is not None else None
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
    """Return how long after its end a pod may still be there."""
    own_s = as_int(as_dict(pod.get("spec")).get("terminationGracePeriodSeconds"))
    return max(GRACE_S, (own_s or 0) + _MARGIN_S)


def _warn(spawner: LimitedSpawner, end: datetime, *, left_s: float) -> None:
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
