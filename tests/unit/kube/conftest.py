"""A server that answers as an API server does, and clients for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from tests.unit.kube.watch_server import WatchServer, serve_watches


@pytest.fixture
async def cluster() -> AsyncIterator[WatchServer]:
    async with serve_watches() as answering:
        yield answering


@pytest.fixture
async def make_api() -> AsyncIterator[Callable[[str], CoreV1Api]]:
    clients: list[ApiClient] = []

    def make(url: str) -> CoreV1Api:
        clients.append(ApiClient(Configuration(host=url)))
        return CoreV1Api(clients[-1])

    yield make
    for client in clients:
        await client.close()


@pytest.fixture
async def cluster_api(cluster: WatchServer, make_api: Callable[[str], CoreV1Api]) -> CoreV1Api:
    return make_api(cluster.url)
