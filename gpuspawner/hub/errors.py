"""Turns errors into exceptions whose messages JupyterHub shows to the user.

JupyterHub 6 has :class:`~jupyterhub.spawner.SpawnException` for refused starts. If a start raises it, JupyterHub logs
no traceback, uses the exception's reason as a label of its metrics, and does not count the start among the failures
that stop the hub (``consecutive_failure_limit``). JupyterHub's pages show the exception's ``jupyterhub_message``, or
``jupyterhub_html_message`` for a message with links. The REST API shows ``jupyterhub_message`` in JupyterHub 6, and
``log_message`` in JupyterHub 5. This module's exceptions set these attributes.

:class:`FailureCount` decides which failed starts JupyterHub counts.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

import aiohttp
from jupyterhub.app import JupyterHub
from kubernetes_asyncio.client.rest import ApiException
from tornado import web
from typing_extensions import override

from gpuspawner.core.errors import GPUSpawnerError, PolicyError
from gpuspawner.core.json_access import as_dict, as_message
from gpuspawner.core.policy.denials import NAMESPACE_QUOTA, POLICY_UNREADABLE
from gpuspawner.core.progress.events import scrub_refusal
from gpuspawner.core.text.i18n import gettext, gettext_lazy, translate_now
from gpuspawner.core.text.wording import join_sentences
from gpuspawner.hub.spawner_protocol import HubUser

try:
    from jupyterhub.spawner import SpawnException
except ImportError:

    class SpawnException(web.HTTPError):  # type: ignore[no-redef]
        """Stands in for JupyterHub 6's ``SpawnException`` if the hub runs JupyterHub 5, which has no such class."""

        def __init__(self, message: str, *, reason: str, status_code: int = 400) -> None:
            super().__init__(status_code, message, reason=reason)
            self.message = message

    COUNTS_REFUSALS = True
else:
    COUNTS_REFUSALS = False

_MAX_PROBLEMS = 10
_MAX_QUOTED = 300

_WEBHOOK_OUTAGE = re.compile(
    r'failed calling webhook "(?P<name>[^"]+)"'
    r'(?:.*?Post "https://(?P<service>[\w-]+)\.(?P<namespace>[\w-]+)\.svc[:/])?',
    re.DOTALL,
)
"""Matches the API server's answer if an admission webhook cannot be reached, is too slow or fails.

The match includes the webhook's Service, if the answer names one. The Service's name usually shows which program runs
the webhook, while the webhook's name may not (Kueue's is ``mpod.kb.io``)."""

_ADMISSION_REFUSAL = re.compile(
    r"admission webhook \S+ denied the request|ValidatingAdmissionPolicy .{1,600} denied request: "
    r"|violates PodSecurity "
)
"""Matches the API server's answer if a webhook, a ValidatingAdmissionPolicy or Pod Security admission denies a pod."""

SEE_FORM = gettext_lazy("Not started. The form shows what to fix.")

API_UNREACHABLE = gettext_lazy(
    "The Kubernetes API server cannot be reached, so the server was not started. Please try again later."
)
_STATUS_MESSAGES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: gettext_lazy("Kubernetes refused the hub's credentials, so the server was not started."),
    HTTPStatus.TOO_MANY_REQUESTS: gettext_lazy(
        "The Kubernetes API server is overloaded, so the server was not started."
    ),
}


class RefusedStart(SpawnException):
    """Refuses a start for a reason that the user can change; the start does not count as a failure of the hub.

    :param message: plain text for the user.
    :param reason: stable code of the reason, used as a label of JupyterHub's metrics.
    :param status_code: status of the HTTP response.
    :param html: the message as HTML with links; if empty, pages show the plain message.
    :ivar code: the code given as ``reason``; JupyterHub 5 overwrites the attribute ``reason`` with ``error``.
    """

    def __init__(self, message: str, *, reason: str, status_code: int = 400, html: str = "") -> None:
        super().__init__(message, reason=reason, status_code=status_code)
        self.code = reason
        self.jupyterhub_message = message
        if html:
            self.jupyterhub_html_message = html


class RefusedProfile(RefusedStart, ValueError):  # noqa: N818
    """Refuses a profile, or a choice in it, that KubeSpawner's ``profile_list`` does not have.

    It is a ``ValueError``, as KubeSpawner's own error is.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="unknown_choice")

    @override
    def __str__(self) -> str:
        return self.jupyterhub_message  # KubeSpawner logs it


class SlowStartError(TimeoutError):
    """Ends a start that took too long; JupyterHub treats this error like a timeout by its own ``start_timeout``."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.jupyterhub_message = message


class ClusterFailure(SpawnException):
    """Ends a start that Kubernetes refused or that failed in the cluster.

    Such a start does not count as a failure of the hub.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="cluster", status_code=HTTPStatus.SERVICE_UNAVAILABLE)
        self.jupyterhub_message = message


def make_refusal(error: GPUSpawnerError, *, beside_form: bool = False) -> RefusedStart:
    """Return the exception for refused user options; its message says for each refused field what is wrong.

    :param error: the error with a problem for each refused field.
    :param beside_form: whether the page shows the form again with each message at its field. If so,
        ``jupyterhub_message`` contains no reasons and only refers to the form.
    """
    lines = [
        f"{problem.field}: {problem.message}" if problem.field else problem.message
        for problem in error.problems[:_MAX_PROBLEMS]
    ]
    if len(error.problems) > _MAX_PROBLEMS:
        lines.append(gettext("And {number} more.", number=len(error.problems) - _MAX_PROBLEMS))
    refused = RefusedStart(" ".join(lines), reason=error.code, status_code=_find_status(error))
    if beside_form:
        refused.jupyterhub_message = translate_now(SEE_FORM)
    return refused


def _find_status(error: GPUSpawnerError) -> HTTPStatus:
    if not isinstance(error, PolicyError):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.SERVICE_UNAVAILABLE if error.code == POLICY_UNREADABLE else HTTPStatus.FORBIDDEN


def make_unread_cluster_failure(reason: str) -> ClusterFailure:
    """Return the exception for user options that the hub cannot check because it cannot read the cluster.

    :param reason: sentence that says why the hub cannot read the cluster.
    """
    unknown = gettext("The hub can't see the cluster's GPUs and nodes right now, so nothing was started.")
    return ClusterFailure(join_sentences(unknown, translate_now(reason)))


def explain_cluster_error(error: BaseException, *, pod_name: str = "", namespace: str = "") -> SpawnException | None:
    """Return an exception that explains an error of the Kubernetes client to the user, or None for any other error.

    KubeSpawner's :class:`TimeoutError` with ``Could not …`` counts as an error of the client: several requests have
    timed out. For one with ``did not start``, which concerns the pod, the result is None.

    :param pod_name: name of the server's pod, the only pod whose name the message may contain.
    """
    if isinstance(error, ApiException):
        return _explain_api_refusal(error, pod_name=pod_name, namespace=namespace)
    if isinstance(error, aiohttp.ClientError) or (isinstance(error, TimeoutError) and "Could not" in str(error)):
        return ClusterFailure(translate_now(API_UNREACHABLE))
    return None


def is_webhook_outage(error: ApiException) -> bool:
    """Return whether the API server has refused an object because an admission webhook fails or does not answer."""
    return bool(_WEBHOOK_OUTAGE.search(_parse_status_message(error.body)))


def is_conflict(error: ApiException) -> bool:
    """Return whether a request has failed because another request changed the same object, such as a ResourceQuota.

    The API server answers such a request with status 409. It also answers with 409 if a request would create an object
    whose name is taken. For that case, the result is False.
    """
    return error.status == HTTPStatus.CONFLICT and _parse_status(error.body).get("reason") == "Conflict"


def _explain_api_refusal(error: ApiException, *, pod_name: str, namespace: str) -> SpawnException:
    message = _STATUS_MESSAGES.get(error.status)
    if message is not None:
        return ClusterFailure(translate_now(message))
    answer = _parse_status_message(error.body)
    if outage := _WEBHOOK_OUTAGE.search(answer):
        name = outage["name"]
        if outage["service"]:
            name += f" ({outage['namespace']}/{outage['service']})"
        reason = gettext(
            "The admission webhook {name} of the cluster cannot be reached or fails, so the server was not started."
            " Please try again later.",
            name=name[:_MAX_QUOTED],
        )
        return ClusterFailure(reason)
    sentence = gettext(
        "Kubernetes refused to create the server ({status}): {answer}",
        status=error.status,
        answer=(scrub_refusal(answer, pod_name=pod_name, namespace=namespace) or str(error.reason or ""))[:_MAX_QUOTED],
    )
    if error.status == HTTPStatus.FORBIDDEN and "exceeded quota" in answer:
        return RefusedStart(sentence, reason=NAMESPACE_QUOTA, status_code=HTTPStatus.CONFLICT)
    if _ADMISSION_REFUSAL.search(answer):
        return RefusedStart(sentence, reason="refused_by_admission", status_code=HTTPStatus.CONFLICT)
    return ClusterFailure(sentence)


def _parse_status_message(body: Any) -> str:
    """Return the ``message`` in a response body, a JSON object such as metav1.Status; "" without one."""
    return as_message(_parse_status(body).get("message"))


def _parse_status(body: Any) -> Mapping[str, object]:
    """Return the JSON object in a response body, usually a metav1.Status, or an empty dict for any other body."""
    try:
        return as_dict(json.loads(body))
    except (TypeError, ValueError, RecursionError):
        return {}


class FailureCount:
    """Corrects JupyterHub's count of failed starts, so that only the hub's own failures stop the hub.

    JupyterHub stops the hub after ``consecutive_failure_limit`` failed starts in a row (5 in zero-to-jupyterhub),
    because a restart of the hub may help. With this class, a failed start counts only if the hub itself may be the
    cause. After one failure of a user, further failures of this user do not count until a start of any user succeeds or
    is cancelled. Otherwise a single user could stop the hub, for example if the admin's hook fails only for this user.
    """

    def __init__(self) -> None:
        self._users: set[str] = set()
        self._followed: WeakSet[asyncio.Future[Any]] = WeakSet()
        self._settled: WeakSet[asyncio.Future[Any]] = WeakSet()

    def follow(self, start: asyncio.Future[Any], user: HubUser) -> None:
        """Watch a start until it ends.

        If the start fails, correct JupyterHub's count of failed starts, unless :meth:`settle` has already done so. If
        the start succeeds or is cancelled, the next failure of each user counts again.
        """
        if start not in self._followed:
            self._followed.add(start)
            # Read the user's name now: after a database error, the name may be unreadable.
            start.add_done_callback(partial(self._note_end, user_name=user.name, settings=user.settings))

    def settle(self, start: asyncio.Future[Any], error: Exception, *, user: HubUser) -> None:
        """Keep a failed start out of JupyterHub's count of failed starts, unless the hub may be the cause.

        The method subtracts 1, because JupyterHub will add 1. JupyterHub 6 does not add 1 for a refused start.

        :param start: JupyterHub's future of the start.
        """
        if start in self._settled:
            return
        self._settled.add(start)
        self._settle(error, user.name, settings=user.settings)

    def _settle(self, error: Exception, user_name: str, *, settings: MutableMapping[str, Any]) -> None:
        if is_hub_failure(error) and user_name not in self._users:
            self._users.add(user_name)
        elif COUNTS_REFUSALS or not _is_refusal(error):
            counting = _find_handler_settings() or settings
            counting["failure_count"] = counting.get("failure_count", 0) - 1

    def _note_end(self, start: asyncio.Future[Any], *, user_name: str, settings: MutableMapping[str, Any]) -> None:
        if not has_failed(start):
            self._users.clear()
        elif start not in self._settled and isinstance(error := start.exception(), Exception):
            # No code has called settle() for this failed start, so correct JupyterHub's count here.
            self._settle(error, user_name, settings=settings)


def has_failed(start: asyncio.Future[Any]) -> bool:
    """Return whether a start has failed; a cancelled start has not.

    :param start: JupyterHub's future of the start.
    """
    return start.done() and not start.cancelled() and start.exception() is not None


def is_hub_failure(error: Exception) -> bool:
    """Return whether a start may have failed because of the hub itself, so that a restart of the hub may help.

    A restart does not help against refusals, an unreachable API server or webhook, or a server that is slow to start.
    """
    return not (_is_refusal(error) or isinstance(error, TimeoutError | ApiException | aiohttp.ClientError))


def _is_refusal(error: Exception) -> bool:
    """Return whether JupyterHub 6 treats an exception as a refused start; refused starts do not count as failures."""
    is_clients = isinstance(error, web.HTTPError) and error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    return is_clients or isinstance(error, SpawnException)


def find_start_failure() -> Exception | None:
    """Return the exception that ended a start, while JupyterHub cleans up after the start; None at any other time.

    JupyterHub cleans up inside its ``except`` block, so Python is still handling the exception. If the clean-up itself
    fails, return the start's :class:`SpawnException`, which is in the ``__context__`` chain of the new exception.
    """
    handled = sys.exception()
    if not isinstance(handled, Exception):
        return None
    return next((each for each in _walk_contexts(handled) if isinstance(each, SpawnException)), handled)


def _walk_contexts(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__


def _find_handler_settings() -> MutableMapping[str, Any] | None:
    """Return the settings dict in which JupyterHub's handlers count failures; None outside a hub.

    Tornado copies ``user.settings``, so a change there does not reach the handlers.
    """
    if not JupyterHub.initialized():
        return None
    settings: MutableMapping[str, Any] = JupyterHub.instance().tornado_application.settings
    return settings
