"""Sends requests through the hub's Kubernetes client and turns every way to fail into one error.

Answers stay raw: the client's model objects cost many times what parsing costs.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Awaitable
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp

_PIECE_BYTES = 64 * 1024
"""What is decoded at once; megabytes may have arrived."""

_ANSWERED = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})


class APIMethod(Protocol):
    """A list method of a kubernetes_asyncio API class (``CoreV1Api.list_node``); it watches as well."""

    def __call__(self, **arguments: Any) -> Awaitable[Any]:
        """Send the request and return the HTTP response (with ``_preload_content=False``)."""


class APIUnavailableError(Exception):
    """The API server did not answer a request, or refused it.

    :param status: HTTP status, None without an answer.
    """

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


async def send_request(method: APIMethod, **arguments: Any) -> aiohttp.ClientResponse:
    """Send a request and return its response as soon as its headers are there; reading and closing is the caller's.

    :raises APIUnavailableError: no answer in time, or a refusal.
    """
    try:
        response: aiohttp.ClientResponse = await method(_preload_content=False, **arguments)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise make_unavailable_error(error) from error
    if response.status not in _ANSWERED:
        response.close()
        raise APIUnavailableError(f"HTTP status {response.status}", status=response.status)
    return response


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Read a response to its end.

    :raises APIUnavailableError: it does not end in time, or ends too early.
    """
    try:
        return await response.read()
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise make_unavailable_error(error) from error
    finally:
        response.close()


async def stream_text(response: aiohttp.ClientResponse) -> AsyncGenerator[str, None]:
    """Read a response of megabytes to its end, in pieces; to be closed by whoever does not.

    :raises APIUnavailableError: it does not end in time, ends too early, or is no text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        async for piece in response.content.iter_chunked(_PIECE_BYTES):
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise make_unavailable_error(error) from error
    except UnicodeDecodeError as error:
        raise APIUnavailableError("the answer is no text") from error
    finally:
        response.close()


def make_unavailable_error(error: Exception) -> APIUnavailableError:
    """Return what a failure of the connection means."""
    if isinstance(error, TimeoutError):
        return APIUnavailableError("no answer in time")
    return APIUnavailableError(str(error) or type(error).__name__)
