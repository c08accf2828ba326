"""Lets KubeSpawner create pods without parsing the API server's answers, which KubeSpawner ignores.

The answer to the creation of a pod is the whole pod. Kubernetes' Python client builds a model of it, with an object for
each part, which takes longer than KubeSpawner takes to build the pod.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any
from weakref import WeakKeyDictionary

from kubernetes_asyncio.client import CoreV1Api
from kubernetes_asyncio.client.rest import ApiException, RESTResponse
from typing_extensions import override

_is_ignored: ContextVar[bool] = ContextVar("gpuspawner_ignores_created_pod", default=False)


class PodCreatingAPI(CoreV1Api):
    """A client like ``CoreV1Api``, which inside :func:`ignore_created_pod` returns no created pods."""

    @override
    async def create_namespaced_pod(self, namespace: str, body: Any, **options: Any) -> Any:
        """Create a pod; see ``CoreV1Api.create_namespaced_pod``.

        :param namespace: namespace of the pod.
        :param body: the pod as a model of the client, or as a dict.
        :param options: options of the request.
        :returns: the created pod as a model of the client; None inside :func:`ignore_created_pod`.
        :raises ApiException: the API server or an admission webhook rejects the pod.
        """
        create = super().create_namespaced_pod
        if not _is_ignored.get():
            return await create(namespace, body, **options)
        await read_answer(lambda **unparsed: create(namespace, body, **options, **unparsed))
        return None


_apis: WeakKeyDictionary[Any, PodCreatingAPI] = WeakKeyDictionary()


def get_pod_creating_api(api: Any) -> Any:
    """Return the :class:`PodCreatingAPI` of a client; the same one each time.

    :param api: KubeSpawner's ``CoreV1Api``. A client of another class, which a site may have set, is returned itself.
    """
    if type(api) is not CoreV1Api:
        return api
    client: Any = api
    if client not in _apis:
        _apis[client] = PodCreatingAPI(client.api_client)
    return _apis[client]


@contextmanager
def ignore_created_pod() -> Iterator[None]:
    """Inside this context, and in tasks begun inside it, let :class:`PodCreatingAPI` return no created pods."""
    token = _is_ignored.set(True)
    try:
        yield
    finally:
        _is_ignored.reset(token)


async def read_answer(send: Callable[..., Awaitable[Any]]) -> bytes:
    """Send a request and return the API server's answer as JSON text.

    :param send: method of a client of ``kubernetes_asyncio``, with all its arguments but ``_preload_content``.
    :raises ApiException: the status of the answer is an error.
    """
    response = await send(_preload_content=False)
    body: bytes = await response.read()
    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
        answer: Any = RESTResponse(response, body)
        error: Any = ApiException(http_resp=answer)
        error.body = body.decode(errors="replace")  # as the client itself does
        raise error
    return body
