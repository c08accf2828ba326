"""Resumes starts that a restart of the hub has interrupted, from data in the cluster and in the hub's database.

When JupyterHub starts, it checks whether the servers in its database run. JupyterHub does not know that a server was
still starting. For such a server, JupyterHub would wait for an answer until ``http_timeout``, and then delete the pod
without a message. gpuspawner therefore hides a starting server from this check, and marks the server as spawning, as
JupyterHub does when a user starts a server.

The pod, its GPUs and its position in a queue are in the cluster. JupyterHub's database contains the time at which the
start began. After the hub has sent the pod, gpuspawner adds the start's timeout and the user's language to the
spawner's state in this database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.utils import maybe_future
from kubernetes_asyncio.client.rest import ApiException
from kubespawner.objects import make_owner_reference
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import object_session

from gpuspawner.core.catalog.model import GPUType
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.text.i18n import ENGLISH, Language, gettext, use_language
from gpuspawner.hub.errors import RefusedStart, SlowStartError, find_start_failure
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.kubespawner.hub_pods import (
    ensure_events_watched,
    ensure_pods_watched,
    find_pod,
    has_read_pods,
)
from gpuspawner.hub.kubespawner.reflectors import is_given_up
from gpuspawner.hub.metrics import registry, starts
from gpuspawner.hub.pod.patch import read_chosen_gpus
from gpuspawner.hub.request.languages import load_languages
from gpuspawner.hub.start.endings import (
    RECORD_KEY,
    find_message,
    read_end,
    read_failure,
    read_pods,
    read_start_time,
    repeat_until_accepted,
    write_end,
)
from gpuspawner.hub.start.state import ServerEnd, StartingSpawner
from gpuspawner.hub.start.stream import read_uid
from gpuspawner.hub.start.supervisor import format_wait

_START_KEY = "start"
_LANGUAGE_KEY = "language"
_PAUSE_S = 1.0
_WRITE_DELAY_S = 0.25
_EVENTS_S = 10.0
"""Maximum number of seconds for which a start waits for the first list of events; then it continues without events."""
_SERVER_ACTION = "https://schema.jupyter.org/jupyterhub/events/server-action"
_PORTS = {"http": 80, "https": 443}
_PORT_NAME = "notebook-port"
"""Name of the server's port in the pods of KubeSpawner."""


def build_record(spawner: StartingSpawner) -> dict[str, object]:
    """Return what gpuspawner adds to a spawner's state in JupyterHub's database; may be empty."""
    state = spawner.start_state
    record = write_end(state.end)
    if state.feed.language is not ENGLISH:
        record[_LANGUAGE_KEY] = state.feed.language.tag
    # Record a failed start, too: if the hub ends before the server is stopped, the restarted hub stops the server.
    has_failed = state.end is not None and not state.feed.has_not_begun
    if has_failed or (state.feed.is_sent and _is_in_progress(spawner)):
        record[_START_KEY] = {"timeout_s": float(spawner.start_timeout)}
    return {RECORD_KEY: record} if record else {}


class StateWriter:
    """Writes the states of starts to the hub's database, so that the starts outlast the hub's process.

    A commit blocks the hub's event loop, and the users of a course may start many servers together. Starts that send
    their pods within a quarter of a second therefore share one commit.
    """

    def __init__(self) -> None:
        self._waiting: list[StartingSpawner] = []

    def schedule(self, spawner: StartingSpawner) -> None:
        """Schedule a commit that writes the state of a start to the hub's database."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(_WRITE_DELAY_S, self._write)
        self._waiting.append(spawner)

    def _write(self) -> None:
        spawners, self._waiting = self._waiting, []
        # JupyterHub itself writes the states of starts that have ended.
        store_states([each for each in spawners if _is_in_progress(each)])


def _is_in_progress(spawner: StartingSpawner) -> bool:
    start = private_api.get_start_future(spawner)
    return start is not None and not start.done()


def store_states(spawners: Sequence[StartingSpawner]) -> None:
    """Write the states of spawners to the hub's database in one commit; log a failure."""
    rows = [(each, row) for each in spawners if (row := each.orm_spawner) is not None]
    session = next((found for _, row in rows if (found := object_session(row)) is not None), None)
    if session is None:
        return
    try:
        for spawner, row in rows:
            row.state = spawner.get_state()
        session.commit()
    except SQLAlchemyError:
        session.rollback()
        for spawner, _ in rows:
            spawner.log.exception("The start of %s would not outlast the hub", private_api.get_log_name(spawner))


def store_failure(spawner: StartingSpawner) -> None:
    """Store in the hub's database why a start has failed; do nothing if no start has just failed.

    JupyterHub itself stores the spawner's state only later, and the hub may end before that.
    """
    state, start, failure = spawner.start_state, private_api.get_spawn_future(spawner), find_start_failure()
    if start is None or start.done() or failure is None:
        return
    if state.is_resumed and state.feed.has_not_begun:
        return  # an earlier process of the hub has stored the reason
    if not state.is_resumed:  # Replace the reason of an earlier end. A resumed start already has its own reason.
        state.end = read_failure(failure)
    if state.end is not None:
        store_states([spawner])


def load_record(spawner: StartingSpawner, state: Mapping[str, object]) -> None:
    """Restore a server's state from the hub's database, and resume its start if the hub ended during the start."""
    record = as_dict(state.get(RECORD_KEY))
    spawner.start_state.end = read_end(state)
    spawner.start_state.feed.language = _find_language(record)
    if _is_starting(spawner):
        saved = as_dict(record.get(_START_KEY))
        spawner.start_state.is_resumed = spawner.start_state.is_hidden = True
        private_api.mark_spawning(spawner, asyncio.ensure_future(_finish_start(spawner, saved)))


def _find_language(record: Mapping[str, object]) -> Language:
    return load_languages().get(as_text(record.get(_LANGUAGE_KEY)).lower(), ENGLISH)


def _is_starting(spawner: StartingSpawner) -> bool:
    """Return whether a server was still starting when the hub ended, so that its start should be resumed.

    While a server starts, the hub's database has a row for the server's address, but the row has no IP address yet.
    Return False if the server's user is blocked, because JupyterHub itself then stops the server.
    """
    server = None if spawner.orm_spawner is None else spawner.orm_spawner.server
    is_blocked = spawner.user.name in getattr(spawner.authenticator, "blocked_users", ())
    return server is not None and not server.ip and not is_blocked


async def _finish_start(spawner: StartingSpawner, saved: Mapping[str, object]) -> None:
    """Resume a start and finish it, as JupyterHub's ``User.spawn`` and ``BaseHandler.spawn_single_user`` would."""
    name = private_api.get_log_name(spawner)
    try:
        await private_api.wait_for_hub()
    finally:
        spawner.start_state.is_hidden = False
    spawner.log.info("The start of %s goes on after the hub's restart", name)
    with use_language(spawner.start_state.feed.language):
        try:
            _set_address(spawner, await _start(spawner, saved))
            spawner.start_polling()
            store_states([spawner])
            await _wait_until_answering(spawner)
            await _open(spawner)
        except Exception as error:
            await _end(spawner, error)
            raise
    spawner.log.info("%s runs; its start has outlasted the hub's restart", name)


async def _end(spawner: StartingSpawner, error: Exception) -> None:
    """Store and log why a start has failed, and stop the server unless JupyterHub has already stopped it."""
    name, code, message = private_api.get_log_name(spawner), starts.classify_outcome(error), find_message(error)
    spawner.log.warning(
        "The start of %s, which the hub's restart had cut off, has failed (%s): %s",
        name, code, error, exc_info=not message,
    )  # fmt: skip
    if not message:
        message = gettext("The hub could not finish the start of your server. Please start it again.")
    spawner.start_state.end = ServerEnd(code=code, message=message)
    if spawner.server is not None:
        await _stop(spawner)
    else:
        store_states([spawner])


async def _start(spawner: StartingSpawner, saved: Mapping[str, object]) -> str:
    if saved and (end := spawner.start_state.end) is not None:
        # The start had failed before the hub's restart. Raise the stored reason.
        raise RefusedStart(end.message, reason=end.code, status_code=HTTPStatus.SERVICE_UNAVAILABLE)
    timeout_s = saved.get("timeout_s")
    if isinstance(timeout_s, int | float) and timeout_s > 0:
        spawner.trait_overrides.assign({"start_timeout": int(timeout_s)})
    # If the hub has lost the permission to list pods, it cannot find out whether the pod exists. Do not delete the pod:
    # wait until an admin restores the permission or the user cancels the start.
    while not await read_pods(spawner):  # noqa: ASYNC110  # no event reports a new permission
        await asyncio.sleep(_PAUSE_S)
    began_at = read_start_time(spawner.orm_spawner)
    elapsed_s = 0.0 if began_at is None else max(0.0, (datetime.now(UTC) - began_at).total_seconds())
    gpu, label = await _recall_gpu(spawner)
    starts.begin_measuring(spawner, label, elapsed_s=elapsed_s)
    if not saved and find_pod(spawner) is None:
        sentence = gettext("The hub was restarted before it had created your server. Please start it again.")
        raise RefusedStart(sentence, reason="interrupted", status_code=HTTPStatus.SERVICE_UNAVAILABLE)
    spawner.start_state.feed.gpu = gpu
    spawner.start_state.feed.resume(began_at, elapsed_s=elapsed_s)
    return str(await spawner.resume())


async def _recall_gpu(spawner: StartingSpawner) -> tuple[GPUType | None, str]:
    """Return the GPU type of a server's pod, for messages, and the metric label of the start.

    The GPU type is None if the server has none, if the settings no longer contain it, or if there is no pod.
    """
    try:
        if spawner.events_enabled:
            await ensure_events_watched(spawner, timeout_s=_EVENTS_S)
        catalog = (await spawner.make_offer()).catalog
    except Exception:  # log any exception: it must not end the start
        spawner.log.exception("Cannot tell which GPU %s has chosen", private_api.get_log_name(spawner))
        return None, registry.OTHER_LABEL
    if (pod := find_pod(spawner)) is None:
        label = registry.OTHER_LABEL
        return None, label if spawner.starts_profile else starts.find_gpu_label(spawner.user_options, catalog)
    gpus = read_chosen_gpus(as_dict(as_dict(pod.get("metadata")).get("annotations")))
    gpu = catalog.gpus.get(gpus.slug)
    return gpu, registry.NO_GPU if not gpus.text else registry.OTHER_LABEL if gpu is None else gpu.slug


async def _wait_until_answering(spawner: StartingSpawner) -> None:
    try:
        await private_api.wait_until_answering(spawner)
    except TimeoutError as error:
        sentence = gettext(
            "Your server started but did not answer within {duration}, so it was stopped.",
            duration=format_wait(spawner.http_timeout),
        )
        raise SlowStartError(sentence) from error


async def can_read_pods(spawner: StartingSpawner) -> bool:
    """Return whether KubeSpawner has listed the pods of servers, so that a poll can find out whether a server runs.

    When JupyterHub starts, it polls all servers, and forgets a server whose poll fails. These first polls therefore
    wait until KubeSpawner has listed the pods, or until the API server has refused the list for
    ``k8s_api_request_retry_timeout`` seconds. Later polls wait at most ``k8s_api_request_timeout`` seconds.
    """
    if has_read_pods(spawner) and not is_given_up(spawner.pod_reflector):
        return True
    if private_api.is_checked(spawner):
        return await read_pods(spawner)
    await ensure_pods_watched(spawner, timeout_s=spawner.k8s_api_request_timeout, waits_again=False)
    return has_read_pods(spawner)


async def wait_for_pod(spawner: StartingSpawner) -> str:
    """Wait until the pod of a resumed start runs and return its URL, as KubeSpawner's start does.

    :raises ApiException: the API server refuses to create the pod's missing Secret or Service.
    """
    while (pod := find_pod(spawner)) is None:  # noqa: ASYNC110  # KubeSpawner's watch has no event
        await asyncio.sleep(_PAUSE_S)
    await _complete(spawner, pod)
    while not spawner.is_pod_running(find_pod(spawner)):  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE_S)
    return private_api.get_pod_url(spawner, find_pod(spawner) or {})


async def _complete(spawner: StartingSpawner, pod: Mapping[str, Any]) -> None:
    """Create the Secret and the Service of a pod if the hub ended before KubeSpawner's start had created them.

    KubeSpawner creates both before it calls the admin's ``after_pod_created_hook``. If one of them is missing,
    KubeSpawner has not called the hook; in this case, call the hook here.
    """
    created: list[str] = []

    async def create_missing() -> bool:
        owner = make_owner_reference(spawner.pod_name, read_uid(pod))
        if spawner.internal_ssl and not await _has_object(spawner, pod, kind="secret", name=spawner.secret_name):
            files = await maybe_future(spawner.create_certs())
            spawner.cert_paths = await maybe_future(spawner.move_certs(files))
            await private_api.replace_object(spawner, spawner.get_secret_manifest(owner), kind="secret")
            created.append("secret")
        has_service = spawner.internal_ssl or spawner.services_enabled
        if has_service and not await _has_object(spawner, pod, kind="service", name=spawner.pod_name):
            await private_api.replace_object(spawner, _make_service(spawner, pod, owner=owner), kind="service")
            created.append("service")
        return True

    await repeat_until_accepted(spawner, create_missing, purpose="create what the pod lacks")
    if created and spawner.after_pod_created_hook is not None:
        await maybe_future(spawner.after_pod_created_hook(spawner, pod))


async def _has_object(spawner: StartingSpawner, pod: Mapping[str, Any], *, kind: str, name: str) -> bool:
    """Return whether a pod's Secret or Service exists; an object that belongs to an earlier pod does not count."""
    read = getattr(spawner.api, f"read_namespaced_{kind}")
    try:
        found = await read(name, spawner.namespace, _request_timeout=spawner.k8s_api_request_timeout)
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return any(each.uid == read_uid(pod) for each in found.metadata.owner_references or ())


def _make_service(spawner: StartingSpawner, pod: Mapping[str, Any], *, owner: Any) -> Any:
    """Return the manifest of a Service for an existing pod.

    The port and the labels are the pod's, because the settings may have changed since the pod's creation.
    """
    ports = [each for container in pod["spec"]["containers"] for each in container.get("ports") or ()]
    port = next((each["containerPort"] for each in ports if each.get("name") == _PORT_NAME), None)
    # Pass the port only if get_service_manifest() has a parameter for it; in KubeSpawner 7.0, it has none.
    takes_port = "port" in signature(spawner.get_service_manifest).parameters
    service = spawner.get_service_manifest(owner, **({"port": port} if takes_port else {}))
    labels = as_dict(pod["metadata"].get("labels"))
    service.spec.selector = {key: value for key, value in service.spec.selector.items() if labels.get(key) == value}
    return service


def _set_address(spawner: StartingSpawner, address: str) -> None:
    parts, server = urlsplit(address), spawner.server
    server.proto, server.ip = parts.scheme, parts.hostname
    server.port = parts.port or _PORTS[parts.scheme]


async def _open(spawner: StartingSpawner) -> None:
    settings, name = spawner.user.settings, spawner.name
    with private_api.note_proxy_pending(spawner):
        await settings["proxy"].add_user(spawner.user, name)
    spawner.add_poll_callback(_forget_ended, spawner)
    data = {"action": "start", "username": spawner.user.name, "servername": name}
    try:
        settings["eventlog"].emit(schema_id=_SERVER_ACTION, data=data)
    except Exception:  # only log the exception: the server runs, and a missing event must not stop it
        spawner.log.exception("Cannot log the start of %s as an event", private_api.get_log_name(spawner))


async def _forget_ended(spawner: StartingSpawner) -> None:
    await spawner.user.settings["proxy"].delete_user(spawner.user, spawner.name)
    await _stop(spawner)


async def _stop(spawner: StartingSpawner) -> None:
    try:
        await spawner.user.stop(spawner.name)
    except Exception:  # only log the exception, as JupyterHub does: the error that ended the server matters more
        spawner.log.exception("Cannot clean up after the start of %s", private_api.get_log_name(spawner))
