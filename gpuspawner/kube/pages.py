"""Lists objects page by page, each projected at once: knows HTTP and Kubernetes' list protocol, not what is listed.

A node of a large cluster is tens of kilobytes of JSON, of which ten facts matter, and parsing blocks the hub's event
loop. So pages are small, the loop gets a turn between two of them, and nothing but the projection is kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import aiohttp

__all__ = ["APIUnavailableError", "ListMethod", "list_all"]

T = TypeVar("T")


class ListMethod(Protocol):
    """A list method of a kubernetes_asyncio API class (``CoreV1Api.list_node``)."""

    def __call__(self, **arguments: Any) -> Awaitable[Any]:
        """Send the request and return the HTTP response (with ``_preload_content=False``)."""


class APIUnavailableError(Exception):
    """The API server did not answer a list request, or refused it.

    :param status: HTTP status, None without an answer.
    """

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


async def list_all(
    method: ListMethod, project: Callable[[object], T], *, page_size: int, timeout_s: float, **selectors: str
) -> list[T]:
    """Return the projections of all objects a list method finds.

    :param timeout_s: seconds for each page, from connecting to the last byte.
    :param selectors: ``field_selector``, ``label_selector``.
    :raises APIUnavailableError: no answer in time, a refusal, or an answer that is no list.
    """
    found: list[T] = []
    token = ""
    while True:
        more = {"_continue": token} if token else {}
        page = await _page(method, limit=page_size, _request_timeout=timeout_s, **selectors, **more)
        items = page.get("items")
        found += [project(item) for item in items] if isinstance(items, list) else []
        metadata = page.get("metadata")
        following = metadata.get("continue") if isinstance(metadata, dict) else None
        if not isinstance(following, str) or not following:
            return found
        token = following
        await asyncio.sleep(0)


async def _page(method: ListMethod, **arguments: Any) -> dict[str, Any]:
    try:
        # Without _preload_content the client builds no model objects, which would cost many times the parsing.
        response = await method(_preload_content=False, **arguments)
        body = await response.read()
    except TimeoutError as error:
        raise APIUnavailableError("no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise APIUnavailableError(str(error) or type(error).__name__) from error
    if response.status != HTTPStatus.OK:
        raise APIUnavailableError(f"HTTP status {response.status}", status=response.status)
    try:
        page = json.loads(body)
    except ValueError as error:
        raise APIUnavailableError("the answer is no JSON") from error
    if not isinstance(page, dict):
        raise APIUnavailableError("the answer is no list of objects")
    return page
