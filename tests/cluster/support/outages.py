"""Outages of an API server and of a hub's way there, done and undone again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from kubernetes import client
from kubernetes.client import ApiClient

from devcluster import Cluster
from devcluster.processes import Process
from devcluster.run_dir import RunDir
from tests.cluster.support.unruly_relay import UnrulyRelay

ANSWERS_WITHIN_S = 60.0


@dataclass
class Way:
    """An API server, and how a hub reaches it.

    :param api: of the administrator, who does not go through the relay.
    """

    cluster: Cluster
    api: ApiClient
    relay: UnrulyRelay

    def process(self, name: str) -> Process:
        found = Process.load(RunDir(self.cluster.run_dir).pids / name)
        assert found is not None
        return found

    async def answers(self) -> None:
        """Wait until the API server serves again, asked directly."""
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            while not await asyncio.to_thread(_is_ready, self.api):  # noqa: ASYNC110  # another process knows no events
                await asyncio.sleep(0.1)


Outage = Callable[[Way], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def killed(way: Way) -> AsyncIterator[None]:
    way.process("kube-apiserver").kill()
    yield
    await way.answers()


@asynccontextmanager
async def frozen(way: Way) -> AsyncIterator[None]:
    way.process("kube-apiserver").kill(signal.SIGSTOP)
    yield
    way.process("kube-apiserver").kill(signal.SIGCONT)


@asynccontextmanager
async def cut(way: Way) -> AsyncIterator[None]:
    way.relay.cut()
    yield


@asynccontextmanager
async def down(way: Way) -> AsyncIterator[None]:
    way.relay.refuses = True
    way.relay.cut()
    yield
    way.relay.refuses = False


@asynccontextmanager
async def muted(way: Way) -> AsyncIterator[None]:
    way.relay.mute()
    yield


def late(by_s: float) -> Outage:
    """Have everything that the API server says arrive so many seconds late."""

    @asynccontextmanager
    async def outage(way: Way) -> AsyncIterator[None]:
        way.relay.latency_s = by_s
        yield
        way.relay.latency_s = 0.0

    return outage


def _is_ready(api: ApiClient) -> bool:
    try:
        return bool(client.CoreV1Api(api).list_namespace(_request_timeout=2).items)
    except Exception:  # noqa: BLE001  # that is the question
        return False
