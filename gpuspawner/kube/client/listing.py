"""Lists a resource page by page and passes on each object as soon as it is parsed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from gpuspawner.kube.client.api_requests import APIMethod, APIUnavailableError, send_request, stream_text
from gpuspawner.kube.client.json_stream import parse_members
from gpuspawner.kube.client.pacing import Pacer


async def list_each(method: APIMethod, keep: Callable[[object], object], *, pacer: Pacer, **arguments: Any) -> str:
    """Pass each object of a list to a function and return the list's ``resourceVersion``.

    The request sends no ``resourceVersion``, so the list is the most recent one and all its pages show the same state:
    https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks

    :param method: list method of a ``kubernetes_asyncio`` API class.
    :param keep: called with each decoded object.
    :param pacer: yields to the event loop between objects.
    :param arguments: of the method: ``limit``, selectors, ``_request_timeout``.
    :raises APIUnavailableError: no answer in time, a refusal, or an answer that is not a list. Status 410 means that
        the continue token expired before the last page.
    """
    token = ""
    while True:
        more = {"_continue": token} if token else {}
        response = await send_request(method, **arguments, **more)
        pacer.reset()
        async with aclosing(stream_text(response)) as pieces:
            metadata = await _parse_page(pieces, keep, pacer=pacer)
        version = metadata.get("resourceVersion")
        if not isinstance(version, str) or not version:
            raise APIUnavailableError("the list has no resourceVersion")
        following = metadata.get("continue")
        if not isinstance(following, str) or not following:
            return version
        token = following


async def _parse_page(
    pieces: AsyncIterator[str], keep: Callable[[object], object], *, pacer: Pacer
) -> dict[str, object]:
    """Pass a page's objects to a function and return the page's metadata."""
    metadata: object = None
    has_items = False
    try:
        async with aclosing(parse_members(pieces)) as found:
            async for name, value in found:
                if name == "metadata":
                    metadata = value
                elif name == "items":
                    has_items = True
                    if isinstance(value, dict):
                        keep(value)
                await pacer.yield_if_due()
    except ValueError as error:
        raise APIUnavailableError("the answer is no JSON") from error
    if not has_items or not isinstance(metadata, dict):
        # Without this check, a malformed answer would count as an empty list and delete every object in memory.
        raise APIUnavailableError("the answer is no list of objects")
    return metadata
