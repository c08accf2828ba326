"""Every way to fail is one error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest
from kubernetes_asyncio.client import CoreV1Api

from gpuspawner.kube.client.api_requests import (
    APIUnavailableError,
    make_unavailable_error,
    read_body,
    send_request,
    stream_text,
)
from tests.unit.kube.list_server import ListServer

NODES = "/api/v1/nodes"


async def test_an_answer_comes_back_raw(server: ListServer, api: CoreV1Api):
    server.bodies[NODES] = '{"a": 1}'
    assert await read_body(await send_request(api.list_node)) == b'{"a": 1}'


async def test_arguments_reach_the_api_server(server: ListServer, api: CoreV1Api):
    (await send_request(api.list_node, limit=3)).close()
    assert server.requests[0].query["limit"] == "3"


@pytest.mark.parametrize("status", [401, 403, 410, 429, 500])
async def test_a_refusal_carries_its_status(server: ListServer, api: CoreV1Api, status: int):
    server.status[NODES] = status
    with pytest.raises(APIUnavailableError) as refused:
        await send_request(api.list_node)
    assert refused.value.status == status


async def test_no_answer_in_time_has_no_status(server: ListServer, api: CoreV1Api):
    server.gate.clear()
    with pytest.raises(APIUnavailableError) as refused:
        await send_request(api.list_node, _request_timeout=0.05)
    assert (refused.value.status, str(refused.value)) == (None, "no answer in time")


async def test_no_server_has_no_status(make_api: Callable[[str], CoreV1Api]):
    with pytest.raises(APIUnavailableError) as refused:
        await send_request(make_api("http://127.0.0.1:1").list_node)
    assert refused.value.status is None


def test_a_failure_without_words_is_named_after_its_type():
    assert str(make_unavailable_error(ConnectionResetError())) == "ConnectionResetError"


class Pieces:
    """A response that arrives in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.content = self
        self.is_closed = False

    async def iter_chunked(self, most: int) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            for begin in range(0, len(piece), most):
                yield piece[begin : begin + most]

    def close(self) -> None:
        self.is_closed = True


async def test_a_long_answer_is_read_in_pieces():
    response: Any = Pieces(*(bytes([each]) for each in '{"a": "ä€😀"}'.encode()))
    read = [piece async for piece in stream_text(response)]
    assert ("".join(read), len(read) > 1, response.is_closed) == ('{"a": "ä€😀"}', True, True)


async def test_of_megabytes_that_have_arrived_only_some_are_read_at_once():
    read = [len(piece) async for piece in stream_text(cast("Any", Pieces(b"x" * 2_000_000)))]
    assert (sum(read), max(read) <= 65536) == (2_000_000, True)


async def test_an_answer_that_is_not_read_to_its_end_is_closed():
    response: Any = Pieces(b"x" * 2_000_000)
    async with aclosing(stream_text(response)) as pieces:
        await anext(pieces)
    assert response.is_closed


@pytest.mark.parametrize("pieces", [(b"\xff",), ("ä".encode()[:1],)])
async def test_bytes_that_are_no_text_are_no_answer(pieces: tuple[bytes, ...]):
    response: Any = Pieces(*pieces)
    with pytest.raises(APIUnavailableError, match="no text"):
        [piece async for piece in stream_text(response)]
    assert response.is_closed
