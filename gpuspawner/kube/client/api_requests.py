"""Sends requests through the hub's Kubernetes client, lists resources page by page, and checks the hub's rights.

A failed request raises an :class:`APIUnavailableError`. The module parses the raw JSON of responses, because
building the client's model objects takes many times as long.

The hub checks its rights before it lists or watches a resource, because the API server's audit log records a refused
request, and such a record may trigger an alarm. To watch a resource, the hub checks both verbs, `list` and `watch`,
since a role may allow only `list`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp
from kubernetes_asyncio.client import AuthorizationV1Api, CustomObjectsApi

from gpuspawner.core.json_access import as_dict, as_dicts, as_text
from gpuspawner.kube.client.pacing import take_turns

MAX_PAGE_BYTES = 2 * 1024 * 1024
"""Maximum size of a page with several objects; parsing it blocks the event loop for about 10 ms."""
MAX_BODY_BYTES = 16 * 1024 * 1024
"""Maximum size of any other answer. Kubernetes objects are smaller: etcd accepts up to 1.5 MiB
(``--max-request-bytes``), and an object's JSON is at most a few times as long."""
_MANAGED_FIELDS = b',"managedFields":['

_ANSWERED = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})


class APIMethod(Protocol):
    """A method of a ``kubernetes_asyncio`` API class, such as ``CoreV1Api.list_node``."""

    def __call__(self, **arguments: Any) -> Awaitable[Any]:
        """Send the request and return the raw HTTP response.

        :param arguments: arguments of the client's method; callers always pass ``_preload_content=False``.
        """


class CoreAPI(Protocol):
    """The methods of ``kubernetes_asyncio.client.CoreV1Api`` with which the hub reads the cluster.

    :ivar api_client: the ``ApiClient`` of the ``CoreV1Api``, which the type information of its package lacks.
    """

    api_client: Any
    list_node: APIMethod
    list_pod_for_all_namespaces: APIMethod
    list_persistent_volume: APIMethod
    read_persistent_volume: APIMethod
    read_namespaced_persistent_volume_claim: APIMethod
    list_namespaced_limit_range: APIMethod
    list_namespaced_resource_quota: APIMethod


class APIUnavailableError(Exception):
    """The API server refused a request, did not answer it, or sent an answer that the hub cannot use.

    :param reason: English text for the log.
    :param status: HTTP status with which the API server refused the request; None for the other failures.
    """

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class BodyTooLargeError(APIUnavailableError):
    """The API server's answer is larger than the hub accepts."""


async def send_request(method: APIMethod, **arguments: Any) -> aiohttp.ClientResponse:
    """Send a request and return the response once its headers have arrived; the caller reads and closes the response.

    :raises APIUnavailableError: the API server did not answer in time, or refused the request.
    """
    try:
        response: aiohttp.ClientResponse = await method(_preload_content=False, **arguments)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise make_unavailable_error(error) from error
    if response.status not in _ANSWERED:
        response.close()
        raise APIUnavailableError(f"HTTP status {response.status}", status=response.status)
    return response


async def read_body(response: aiohttp.ClientResponse, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the whole body of a response and close it.

    :param max_bytes: maximum size of the body after decompression.
    :raises BodyTooLargeError: the body is larger.
    :raises APIUnavailableError: the body did not arrive completely or in time.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise BodyTooLargeError(f"the answer has more than {max_bytes} bytes")
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise make_unavailable_error(error) from error
    finally:
        response.close()
    return b"".join(pieces)


async def read_json(method: APIMethod, **arguments: Any) -> object:
    """Send a request and return the JSON of the answer.

    :raises APIUnavailableError: the API server did not answer in time, refused the request, or sent no JSON.
    """
    body = await read_body(await send_request(method, **arguments))
    try:
        answer: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise APIUnavailableError("the answer is no JSON") from error
    return answer


def make_unavailable_error(error: Exception) -> APIUnavailableError:
    """Return an :class:`APIUnavailableError` for a failed connection."""
    if isinstance(error, TimeoutError):
        return APIUnavailableError("no answer in time")
    return APIUnavailableError(str(error) or type(error).__name__)


async def list_each(method: APIMethod, keep: Callable[[object], object], *, limit: int, **arguments: Any) -> str:
    """List a resource page by page, pass each object to ``keep``, and return the list's ``resourceVersion``.

    The request sends no ``resourceVersion``, so the list is the most recent one and all its pages show the same state:
    https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks

    :param method: list method of a ``kubernetes_asyncio`` API class.
    :param limit: maximum number of objects on a page; a page that is too large is requested again with fewer objects.
    :param arguments: arguments of the list method, such as selectors and ``_request_timeout``.
    :raises APIUnavailableError: the API server did not answer in time, refused the request, or answered with something
        that is not a list. Status 410 means that the continue token expired before the last page.
    """
    token, size = "", limit
    while True:
        more = {"_continue": token} if token else {}
        response = await send_request(method, limit=size, **arguments, **more)
        try:
            body = await read_body(response, max_bytes=MAX_PAGE_BYTES if size > 1 else MAX_BODY_BYTES)
        except BodyTooLargeError:
            if size == 1:
                raise
            size //= 2
            continue
        items, metadata = _parse_page(body)
        async for item in take_turns(items):
            if isinstance(item, dict):
                keep(item)
        version, token = as_text(metadata.get("resourceVersion")), as_text(metadata.get("continue"))
        if not version:
            raise APIUnavailableError("the list has no resourceVersion")
        if not token:
            return version
        size = min(limit, 2 * size)


def _parse_page(body: bytes) -> tuple[Sequence[object], Mapping[str, object]]:
    try:
        page = as_dict(parse_json(body))
    except ValueError as error:
        raise APIUnavailableError("the answer is no JSON") from error
    metadata = page.get("metadata")
    if "items" not in page or not isinstance(metadata, dict):
        # Raise an error for a malformed answer: if it counted as an empty list, the hub would forget every object.
        raise APIUnavailableError("the answer is no list of objects")
    # Go writes an empty list as null.
    items = page["items"]
    return items if isinstance(items, list) else [], metadata


def parse_json(text: bytes) -> object:
    """Parse JSON of the API server without the objects' ``managedFields``, which are half of a pod's bytes.

    :param text: a list, an object or an event, UTF-8.
    :raises ValueError: the text is no JSON, or is nested too deeply.
    """
    try:
        parsed: object = json.loads(strip_managed_fields(text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return parsed


def strip_managed_fields(text: bytes) -> bytes:
    """Return JSON of the API server without each ``metadata.managedFields`` that ``spec`` follows.

    The API server writes ``managedFields`` last in the metadata, and mostly ``spec`` right after the metadata. JSON
    escapes quotes in strings, so a search for a quoted key cannot match inside a string.
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#managed-fields
    """
    head, *parts = text.split(_MANAGED_FIELDS)
    return b"".join((head, *map(_strip_first_value, parts)))


def _strip_first_value(part: bytes) -> bytes:
    end = part.find(b']},"spec":{')
    # Another "metadata" before the end belongs to the next object of a list, and so does the "spec" that was found.
    if end < 0 or b'"metadata":{' in part[:end]:
        return _MANAGED_FIELDS + part
    return part[end + 1 :]


WATCH_VERBS = ("list", "watch")
"""Verbs that the hub needs to watch a resource, because it lists the resource before the first watch request."""
NOT_SERVED = "find"
""":func:`find_missing_verb` returns this value instead of a verb if the API server does not serve the resource."""


async def find_missing_verb(
    api_client: Any, resource: str, *, timeout_s: float, group: str = "", verbs: Sequence[str] = WATCH_VERBS
) -> str:
    """Return the first verb that the hub may not use on a resource, or an empty string if the hub may use all verbs.

    Return :data:`NOT_SERVED` if the API server does not serve the resource. If a SelfSubjectAccessReview fails, the
    verb counts as allowed; the hub's later request with this verb then shows whether the hub has the right.
    https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access

    :param api_client: the hub's ``kubernetes_asyncio.client.ApiClient``.
    :param resource: plural name of the resource, such as ``nodes``. ``pods`` means the pods of all namespaces.
    :param group: API group of the resource; empty for the core group. The function checks version v1 of the group.
    :param verbs: Kubernetes verbs to check, in this order.
    """
    attributes = {"group": group, "version": "v1", "resource": resource}
    if not await _is_served(api_client, attributes, timeout_s=timeout_s):
        return NOT_SERVED
    allowed = await asyncio.gather(
        *(is_allowed(api_client, {"verb": verb, **attributes}, timeout_s=timeout_s) for verb in verbs)
    )
    return next((verb for verb, answer in zip(verbs, allowed, strict=True) if answer is False), "")


async def _is_served(api_client: Any, attributes: dict[str, str], *, timeout_s: float) -> bool:
    group, version = attributes["group"], attributes["version"]
    if not group:
        return True
    ask: Any = CustomObjectsApi(api_client).get_api_resources
    try:
        answer = await read_json(ask, group=group, version=version, _request_timeout=timeout_s)
    except APIUnavailableError as error:
        return error.status != HTTPStatus.NOT_FOUND
    return any(each.get("name") == attributes["resource"] for each in as_dicts(as_dict(answer).get("resources")))


async def is_allowed(api_client: Any, attributes: Mapping[str, str], *, timeout_s: float) -> bool | None:
    """Return whether a client's Kubernetes account has a right, or None if the API server gives no usable answer.

    :param api_client: a ``kubernetes_asyncio.client.ApiClient``.
    :param attributes: the right, as the ``resourceAttributes`` of a v1 SelfSubjectAccessReview.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": dict(attributes)},
    }
    ask: Any = AuthorizationV1Api(api_client).create_self_subject_access_review
    try:
        answer = await read_json(ask, body=review, _request_timeout=timeout_s)
    except APIUnavailableError:
        return None
    allowed = as_dict(as_dict(answer).get("status")).get("allowed")
    return allowed if isinstance(allowed, bool) else None
