"""Stops servers, finds the pods that failed starts have left, and tells users why their servers ended.

JupyterHub's progress page shows why a start failed, but a restarted hub has forgotten the reason. No page of JupyterHub
tells why a running server ended. gpuspawner therefore stores both kinds of reasons in the hub's database. The hub's
pages announce the end of a running server for a day. If the hub restarts, its pages announce starts that failed in the
last ten minutes. An announcement ends when the user starts the server again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from secrets import token_hex
from typing import Any

import aiohttp
from kubernetes_asyncio.client.rest import ApiException
from markupsafe import Markup
from sqlalchemy.exc import SQLAlchemyError
from traitlets.log import get_logger

from gpuspawner.core.json_access import as_dict, as_text, as_texts
from gpuspawner.core.progress.endings import explain_end_of_running
from gpuspawner.core.progress.events import parse_events
from gpuspawner.core.progress.pod_status import read_containers, read_phase, read_scheduler
from gpuspawner.core.text.i18n import ENGLISH, Language, gettext, use_language
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import (
    PodEvent,
    ensure_events_watched,
    ensure_pods_watched,
    find_pod,
    find_pods_failure,
    has_read_pods,
    select_pod_events,
)
from gpuspawner.hub.metrics.starts import classify_outcome
from gpuspawner.hub.pod.run_time import find_end_time
from gpuspawner.hub.spawner_protocol import HubSpawner, ServerRow
from gpuspawner.hub.start.state import ServerEnd, StartingSpawner
from gpuspawner.hub.start.stream import read_uid

RECORD_KEY = "gpuspawner"
"""Key of gpuspawner's part of a spawner's state in the hub's database."""

_END_KEY = "end"
_PAUSE_S = 1.0
"""Seconds until the hub repeats a failed request, or checks again whether finalizers keep a pod from being deleted."""
_HELD_AFTER = timedelta(seconds=10)
"""Time from the end of a pod's grace period until the hub tells the user which finalizers keep the pod from being
deleted."""
_EVENTS_S = 10.0
"""Maximum number of seconds for which the hub waits for the first list of events before it explains a server's end.

The hub waits only if KubeSpawner does not watch events yet, as after a restart of the hub. If the list does not arrive
in this time, the hub explains the server's end without events."""
_TOLD_FOR = timedelta(days=1)
"""How long the hub announces why a running server has ended, unless the user starts the server again."""
_FAILURE_TOLD_FOR = timedelta(minutes=10)
"""How long a restarted hub announces why a start has failed, counted from the failure.

The time is short because most users have seen the reason on the progress page."""
_PROCESS = token_hex(4)
"""Random text that identifies this process of the hub.

It is stored with the reason why a start failed, so that a restarted hub sees that an earlier process stored the reason.
"""
_ANNOUNCEMENTS = ("announcement", "announcement_home", "announcement_spawn")
"""JupyterHub's template variables for announcements on all pages, on the home page and on the spawn page."""


async def wait_for_cancelled_start(spawner: object) -> None:
    """If JupyterHub has cancelled a start, wait until the start has ended.

    A start that has not ended could still create a pod after the hub has stopped the server.
    """
    spawn = private_api.get_spawn_future(spawner)
    # JupyterHub may stop the server in the start's own task, which must not wait for itself.
    if spawn is None or spawn is asyncio.current_task():
        return
    # Check cancelled(), too, because JupyterHub may already have reset the flag that is_start_cancelled() reads.
    if spawn.cancelled() or private_api.is_start_cancelled(spawner):
        await asyncio.wait([spawn])


def has_failed_start(spawner: object) -> bool:
    """Return whether the server's last start was cancelled or has failed."""
    start = private_api.get_start_future(spawner)
    return start is not None and start.done() and (start.cancelled() or start.exception() is not None)


def may_have_pod(spawner: HubSpawner, *, is_pod_unseen: bool) -> bool:
    """Return whether a start that was cancelled or has failed may have left a pod.

    KubeSpawner's reflector alone does not tell whether a pod exists. The reflector may lack a pod that was created
    after the start was cancelled, or after the reflector's watch broke.

    :param is_pod_unseen: whether the start has sent its pod to the API server, but the hub does not know whether the
        pod exists.
    """
    return is_pod_unseen or find_pod(spawner) is not None


def has_never_run(spawner: HubSpawner) -> bool:
    """Return whether the last start was cancelled or has failed, and no container of its pod has run.

    Such a pod can be deleted without a grace period.
    """
    if not has_failed_start(spawner):
        return False
    pod = find_pod(spawner) or {}
    # Check init containers too: while one runs and may write to the user's volume, the pod's phase is Pending.
    return read_phase(pod) != "Running" and not any(each.is_running or each.end_reason for each in read_containers(pod))


async def repeat_until_accepted(spawner: HubSpawner, send: Callable[[], Awaitable[bool]], *, purpose: str) -> bool:
    """Send requests until the API server accepts them, then return True.

    If the API server is overloaded or cannot be reached, repeat the requests without a time limit. If the API server
    refuses them (see :func:`is_refusal`), repeat them for ``k8s_api_request_retry_timeout`` seconds: an API server that
    has just started may refuse a request that it accepts a moment later.

    :param send: sends the requests once, and returns whether the API server has accepted them.
    :param purpose: what the requests do, for the log, such as ``delete the pod``.
    :raises ApiException: the API server still refuses a request after ``k8s_api_request_retry_timeout`` seconds.
    """
    loop = asyncio.get_running_loop()
    gives_up_at = loop.time() + spawner.k8s_api_request_retry_timeout
    failure: Exception | None = None
    while True:
        try:
            if await send():
                return True
        except (ApiException, aiohttp.ClientError, OSError) as error:
            if is_refusal(error) and loop.time() >= gives_up_at:
                raise
            if failure is None:
                name = private_api.get_log_name(spawner)
                spawner.log.warning("Cannot %s of %s yet, so the hub goes on trying: %s", purpose, name, error)
            failure = error
        await asyncio.sleep(_PAUSE_S)


def is_refusal(error: Exception) -> bool:
    """Return whether the API server has refused a request with a 4xx status other than 429.

    After such a refusal, a repeated request will probably fail, too. After any other failure, such as an outage of the
    API server, a repeated request may succeed.
    """
    status = error.status if isinstance(error, ApiException) else None
    return status is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS


async def read_pods(spawner: StartingSpawner) -> bool:
    """Wait until KubeSpawner has listed the pods of servers, and return True.

    If the API server does not answer, wait without a time limit. If the API server refuses the list for longer than
    ``k8s_api_request_retry_timeout`` seconds, return False.
    """

    async def read_once() -> bool:
        # No timeout: each repeated call would add one more task that waits for the first list of pods.
        await ensure_pods_watched(spawner, timeout_s=None)
        if not has_read_pods(spawner) and isinstance(failure := find_pods_failure(spawner), ApiException):
            raise failure
        return has_read_pods(spawner)

    try:
        return await repeat_until_accepted(spawner, read_once, purpose="read the pod")
    except ApiException as error:
        spawner.log.error(  # noqa: TRY400  # a traceback would tell nothing more
            "The hub may not list pods (%s %s), so it cannot tell whether %s runs. It lacks the right to"
            " `list` and `watch` `pods`.",
            error.status, error.reason, private_api.get_log_name(spawner),
        )  # fmt: skip
        return False


async def stop_server(spawner: StartingSpawner, stop: Callable[[bool], Awaitable[None]], *, now: bool) -> None:
    """Delete a server's pod, without a grace period if its start failed or was cancelled before any container ran.

    Wait until the pod is gone. While finalizers keep the pod from being deleted, the hub's pages tell the user which
    ones. Without permission to list pods, do not wait, because the hub would never learn that the pod is gone.

    :param now: whether to delete the pod without a grace period in any case.
    :raises ApiException: the API server refuses the deletion.
    :raises TimeoutError: the pod still exists when KubeSpawner's timeout ends, although no finalizer keeps the pod
        from being deleted.
    """
    if spawner.start_state.before_stop is not None:
        await spawner.start_state.before_stop()
    spawner.start_state.is_removing = True
    watching = asyncio.create_task(_watch_for_hold(spawner))
    try:
        can_read = await read_pods(spawner)
        now = now or has_never_run(spawner)
        await (_stop_until_released(spawner, stop, now=now) if can_read else private_api.delete_pod(spawner, now=now))
    except Exception:  # Log the error here, because JupyterHub drops it.
        spawner.log.exception("Cannot stop %s", private_api.get_log_name(spawner))
        raise
    finally:
        watching.cancel()
        spawner.start_state.is_removing = False
        spawner.start_state.hold = ""


async def _stop_until_released(spawner: StartingSpawner, stop: Callable[[bool], Awaitable[None]], *, now: bool) -> None:
    """Stop a server, and wait while finalizers keep its pod from being deleted.

    The stop must not end earlier: while the old pod exists, the next start cannot create a pod of the same name.
    """
    while True:
        try:
            await stop(now)
        except TimeoutError:
            if not _list_holding_finalizers(find_pod(spawner) or {}):
                raise
        else:
            return


async def _watch_for_hold(spawner: StartingSpawner) -> None:
    """Check every second whether finalizers keep a stopped server's pod from being deleted.

    When finalizers do so, log their names, tell the user, and return.
    """
    finalizers: Sequence[str] = ()
    while not finalizers:
        await asyncio.sleep(_PAUSE_S)
        finalizers = _list_holding_finalizers(find_pod(spawner) or {})
    names = ", ".join(finalizers)
    with use_language(spawner.start_state.feed.language):
        spawner.start_state.hold = gettext(
            "Your server has ended, but Kubernetes keeps its pod until {names} releases it. It can be started again"
            " after that.",
            names=names,
        )
    spawner.log.warning(
        "The pod of %s has ended and cannot be removed: the component behind the finalizer %s does not release it."
        " The stop goes on until it does.",
        private_api.get_log_name(spawner), names,
    )  # fmt: skip


def _list_holding_finalizers(pod: Mapping[str, Any]) -> Sequence[str]:
    """Return the finalizers that keep a pod from being deleted; empty until 10 s after the pod's grace period."""
    metadata = as_dict(pod.get("metadata"))
    try:
        # The API server sets deletionTimestamp to the time when the pod's grace period ends.
        ends_at = datetime.fromisoformat(as_text(metadata.get("deletionTimestamp")))
    except ValueError:
        return ()
    is_over = datetime.now(UTC) - ends_at >= _HELD_AFTER if ends_at.tzinfo is not None else False
    return as_texts(metadata.get("finalizers")) if is_over else ()


def read_failure(error: BaseException) -> ServerEnd | None:
    """Return why a start failed, for the user; None if the error has no message for users."""
    message = find_message(error)
    return ServerEnd(code=classify_outcome(error), message=message, told_by=_PROCESS) if message else None


def find_message(error: BaseException) -> str:
    """Return an error's message for users, which JupyterHub's pages show; empty if the error has no such message."""
    return as_text(getattr(error, "jupyterhub_message", ""))


async def note_end(spawner: StartingSpawner, *, language: Language) -> None:
    """Log why a running server has ended, and store the reason in the start's state.

    Do nothing if the state already has a reason, if the last start failed or was cancelled, or if the server's program
    exited by itself.

    :param spawner: the spawner of the server; its last poll found that the server has ended.
    """
    state = spawner.start_state
    if state.end is not None or not _has_run(spawner):
        return
    if spawner.events_enabled and spawner.event_reflector is None:
        await ensure_events_watched(spawner, timeout_s=_EVENTS_S)
    pod, is_gone = state.last_pod, find_pod(spawner) is None
    end_time = find_end_time(pod)
    explain = partial(
        explain_end_of_running,
        pod,
        parse_events(_list_events(spawner, pod), pod_uid=read_uid(pod), scheduler=read_scheduler(pod)),
        is_gone=is_gone,
        is_time_up=end_time is not None and end_time <= datetime.now(UTC),
    )
    with use_language(ENGLISH):
        logged = explain()
    with use_language(language):
        told = explain()
    if logged is not None and told is not None:
        name = private_api.get_log_name(spawner)
        spawner.log.warning("The server of %s has ended (%s): %s", name, logged.code, logged.sentence)
        state.end = ServerEnd(code=told.code, message=told.sentence)


def _has_run(spawner: StartingSpawner) -> bool:
    start = private_api.get_start_future(spawner)
    row = spawner.orm_spawner
    return (start is None or (start.done() and not has_failed_start(spawner))) and bool(row and row.server)


def _list_events(spawner: StartingSpawner, pod: Mapping[str, Any]) -> Sequence[PodEvent]:
    """Return the events of a server's pod and of the server's earlier pods, which had the same name.

    The caller selects the events of the last pod by the pod's uid. If this process of the hub has not seen the pod, the
    uid is unknown; the result then contains only events since the last start began.
    """
    reflector = spawner.event_reflector
    if reflector is None:
        return ()
    events = select_pod_events(reflector.resources.values(), spawner.pod_name, after=None)
    return events if pod else list_events_since(events, read_start_time(spawner.orm_spawner))


def list_events_since(events: Sequence[PodEvent], start: datetime | None) -> Sequence[PodEvent]:
    """Return the events that have occurred since a start began.

    :param events: v1 Events in JSON.
    :param start: when the hub began the start; None for all events.
    """
    if start is None:
        return events
    # An event's lastTimestamp is in whole seconds. Round the start down, too: otherwise, an event in the first second
    # after the start would seem to be older than the start.
    first = start.replace(microsecond=0).isoformat().removesuffix("+00:00")
    return [each for each in events if as_text(each.get("lastTimestamp") or each.get("eventTime")) >= first]


def read_start_time(row: ServerRow | None) -> datetime | None:
    """Return when JupyterHub began the last start of a server, or None if unknown."""
    return None if row is None or row.started is None else row.started.replace(tzinfo=UTC)


def write_end(end: ServerEnd | None) -> dict[str, object]:
    """Return why a server ended, as an entry for gpuspawner's part of a spawner's state.

    :param end: why the server ended. None means that there is no reason to announce; the result is then empty.
    """
    if end is None:
        return {}
    at = end.at.isoformat(timespec="seconds")
    return {_END_KEY: {"code": end.code, "message": end.message, "told_by": end.told_by, "at": at}}


def read_end(state: Mapping[str, object]) -> ServerEnd | None:
    """Return why a server ended, as stored in the spawner's state; None if the state contains no reason."""
    end = as_dict(as_dict(state.get(RECORD_KEY)).get(_END_KEY))
    code, message = as_text(end.get("code")), as_text(end.get("message"))
    try:
        at = datetime.fromisoformat(as_text(end.get("at")))
    except ValueError:
        return None
    if not message or at.tzinfo is None:
        return None
    return ServerEnd(code=code, message=message, told_by=as_text(end.get("told_by")), at=at)


def add_announcements(template_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Return JupyterHub's template variables with announcements that tell users why their servers have ended.

    :param template_vars: the admin's template variables. A value may be a function whose argument is the user who views
        a page.
    """
    # If announcement_home is set, the home page does not show announcement. Add no announcement_home.
    names = [name for name in _ANNOUNCEMENTS if name in template_vars or name == _ANNOUNCEMENTS[0]]
    values = {name: template_vars.get(name) for name in names}
    return {
        **template_vars,
        **{name: each if isinstance(each, _Announcement) else _Announcement(each) for name, each in values.items()},
    }


class _Announcement:
    """Callable that returns the announcement for the user who views a page; JupyterHub calls it to render the page.

    The announcement says why servers of this user have ended, and which finalizers keep their pods from being deleted.
    The admin's own announcement follows.

    :param admins: HTML of the admin's announcement, or a function that returns this HTML for a viewer; None if the
        admin has set no announcement.
    """

    def __init__(self, admins: Any) -> None:
        self._admins = admins

    def __call__(self, viewer: Any) -> Any:
        text = self._admins(viewer) if callable(self._admins) else self._admins
        # JupyterHub renders an error page while it handles an exception. Announce no reasons there: the hub
        # reads them from its database, which may be the cause of the error.
        lines = _list_ends(viewer) if sys.exception() is None else []
        if not lines:
            return text
        return str(Markup("<br>").join([*lines, *([Markup(text)] if isinstance(text, str) and text else [])]))  # noqa: S704 - the admin's own HTML


def _list_ends(viewer: Any) -> list[str]:
    held = [
        (name, hold)
        for name, spawner in (getattr(viewer, "spawners", None) or {}).items()
        if (hold := getattr(getattr(spawner, "start_state", None), "hold", ""))
    ]
    found, now = [f"{name}: {hold}" if name else hold for name, hold in held], datetime.now(UTC)
    try:
        rows = getattr(viewer, "orm_spawners", None) or {}
        for name, row in rows.items():
            end = None if row.server else read_end(row.state or {})
            if end is not None and end.told_by != _PROCESS and abs(now - end.at) <= _get_announced_time(end):
                found.append(f"{name}: {end.message}" if name else end.message)
    except SQLAlchemyError:
        get_logger().exception("Cannot tell a user why servers have ended")
        return []
    return found


def _get_announced_time(end: ServerEnd) -> timedelta:
    return _FAILURE_TOLD_FOR if end.told_by else _TOLD_FOR
