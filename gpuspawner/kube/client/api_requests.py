"""Sends requests through the hub's Kubernetes client and raises one error for every kind of failure.

Responses stay raw, because building the client's model objects takes many times as long as parsing JSON.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Awaitable
from http import HTTPStatus
from typing import Any, Protocol

import aiohttp

_PIECE_BYTES = 64 * 1024
"""Bytes decoded in one step, so that a response of megabytes does not block the event loop."""

_ANSWERED = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})


class APIMethod(Protocol):
    """A method of a ``kubernetes_asyncio`` API class, such as ``CoreV1Api.list_node``, which can also watch."""

    def __call__(self, **arguments: Any) -> Awaitable[Any]:
        """Send the request and return the raw HTTP response.

        :param arguments: of the client's method; ``_preload_content=False`` is always among them.
        """


class APIUnavailableError(Exception):
    """The API server refused a request or did not answer it.

    :param reason: English text for the log.
    :param status: HTTP status, or None without a response.
    """

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


async def send_request(method: APIMethod, **arguments: Any) -> aiohttp.ClientResponse:
    """Send a request and return its response once the headers are there; the caller reads and closes it.

    :param method: method of a ``kubernetes_asyncio`` API class.
    :param arguments: of that method.
    :raises APIUnavailableError: the API server did not answer in time or refused.
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
    """Return the whole body of a response and close it.

    :param response: as :func:`send_request` returns it.
    :raises APIUnavailableError: the body did not arrive completely or in time.
    """
    try:
        return await response.read()
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise make_unavailable_error(error) from error
    finally:
        response.close()


async def stream_text(response: aiohttp.ClientResponse) -> AsyncGenerator[str, None]:
    """Yield the body of a large response as text, in pieces; a caller that stops early closes the generator.

    :param response: as :func:`send_request` returns it.
    :raises APIUnavailableError: the body did not arrive completely or in time, or is not UTF-8.
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
    """Return the error for a failed connection.

    :param error: raised by aiohttp or by a socket.
    """
    if isinstance(error, TimeoutError):
        return APIUnavailableError("no answer in time")
    return APIUnavailableError(str(error) or type(error).__name__)
