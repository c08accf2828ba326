"""Faults of a cluster in a chaos run: one after the other of its API server, and beside them of its nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from kubernetes.client import ApiClient, CoreV1Api
from urllib3.util import Retry

from tests.cluster.support import webhook
from tests.cluster.support.chaos.ledger import Ledger
from tests.cluster.support.mishaps import delete_node, limit_range, quota, refusing_policy, scheduler_halted
from tests.cluster.support.nodes import cordoned
from tests.cluster.support.outages import Outage, Way, down, killed, late, muted
from tests.cluster.support.storm.counter import PodCounter

TIGHT = {"requests.nvidia.com/gpu": "12", "pods": "40"}
SMALL = {"cpu": "750m"}
"""The limit of a LimitRange: too little for most."""
CALM_S = (2.0, 6.0)
CORDONED_S = 15.0
DELETED_S = (10.0, 75.0)
"""The control plane keeps the pods of a node that comes back within 40 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that befalls the cluster.

    :param is_outage: the hub cannot rely on answers of the API server meanwhile.
    """

    begin: Callable[[], AbstractAsyncContextManager[None]]
    hold_s: float
    is_outage: bool = False


@dataclass(slots=True, kw_only=True)
class Fate:
    """Draws what befalls the cluster, and when.

    :param folder: for keys and certificates of webhooks.
    :param nodes: those that may be deleted, as they were made.
    :param until: monotonic, in seconds.
    :param only: part of the names of faults that may happen to the API server; empty = all.
    :param struck: uids of pods that were on a node that was deleted.
    """

    way: Way
    namespace: str
    folder: Path
    nodes: Sequence[Mapping[str, Any]]
    counter: PodCounter
    ledger: Ledger
    random: Random
    until: float
    only: str = ""
    struck: set[str] = field(default_factory=set)

    async def strike_api(self) -> None:
        """Let each fault happen once before any does again."""
        faults = {name: fault for name, fault in self.faults().items() if self.only in name}
        assert faults, f"no fault is called {self.only!r}"
        while time.monotonic() < self.until:
            for name in self.random.sample(sorted(faults), len(faults)):
                if time.monotonic() > self.until:
                    return
                fault = faults[name]
                with self.ledger.during(name, is_outage=fault.is_outage):
                    async with fault.begin():
                        await self._sleep(fault.hold_s)
                await asyncio.sleep(self.random.uniform(*CALM_S))

    async def strike_nodes(self) -> None:
        while time.monotonic() < self.until:
            await asyncio.sleep(self.random.uniform(*CALM_S))
            node = self.random.choice(self.nodes)
            await self._cordon(node["metadata"]["name"])
            await self._delete(self.random.choice(self.nodes))

    def faults(self) -> dict[str, Fault]:
        api, where = self.way.api, self.namespace
        reviews = {
            "a webhook refuses pods": webhook.refuse,
            "a webhook answers with 500": webhook.break_down,
            "a webhook does not answer in time": webhook.hang,
        }
        return {
            # The hub stops waiting before the API server does, and cannot tell whether the pod will still be created.
            **{
                name: Fault(begin=self._webhook(review), hold_s=20, is_outage=review is webhook.hang)
                for name, review in reviews.items()
            },
            "a policy of the cluster refuses GPUs": _held(lambda: refusing_policy(api, where), for_s=8),
            "a LimitRange is small": _held(lambda: limit_range(api, where, SMALL), for_s=10),
            "a ResourceQuota is tight": _held(lambda: quota(api, where, TIGHT), for_s=10),
            "the scheduler is stopped": _held(lambda: scheduler_halted(self.way.cluster), for_s=12),
            "the API server answers 2 s late": self._outage(late(2.0), for_s=15),
            "the API server answers 30 s late": self._outage(late(30.0), for_s=20),
            "the API server is out of reach": self._outage(down, for_s=10),
            "connections to the API server are mute": self._outage(muted, for_s=10),
            "the API server is killed": self._outage(killed, for_s=0),
        }

    def _webhook(self, review: webhook.Review) -> Callable[[], AbstractAsyncContextManager[None]]:
        def begin() -> AbstractAsyncContextManager[None]:
            return _off_loop(
                webhook.asked(self.way.cluster, self.way.api, self.folder, namespace=self.namespace, review=review)
            )

        return begin

    def _outage(self, outage: Outage, *, for_s: float) -> Fault:
        return Fault(begin=lambda: outage(self.way), hold_s=for_s, is_outage=True)

    async def _cordon(self, name: str) -> None:
        with self.ledger.during(f"node {name} is cordoned"):
            async with _off_loop(cordoned(self.way.api, [name])):
                await self._sleep(CORDONED_S)

    async def _delete(self, node: Mapping[str, Any]) -> None:
        name = node["metadata"]["name"]
        with self.ledger.during(f"node {name} is deleted"):
            self._note_struck(name)
            await asyncio.to_thread(delete_node, self.way.api, name)
            # A pod that was bound to the node just before is seen a moment later, and may be gone long before the end.
            for _ in range(round(self.random.choice(DELETED_S))):
                self._note_struck(name)
                await self._sleep(1.0)
            self._note_struck(name)
            await asyncio.to_thread(CoreV1Api(self.way.api).create_node, node)

    async def _sleep(self, for_s: float) -> None:
        """Wait for some seconds, but not longer than faults last."""
        await asyncio.sleep(min(for_s, max(0.0, self.until - time.monotonic())))

    def _note_struck(self, node: str) -> None:
        self.struck |= {pod.uid for pod in self.counter.pods if pod.node == node}


def patient(api: ApiClient) -> ApiClient:
    """Return a client of the same cluster that tries again while nothing answers; closing it is the caller's."""
    configuration = api.configuration
    configuration.retries = Retry(
        total=60, backoff_factor=0.1, backoff_max=1.0, allowed_methods=None, status_forcelist=[429, 503]
    )
    return ApiClient(configuration)


def _held(manager: Callable[[], AbstractContextManager[object]], *, for_s: float) -> Fault:
    return Fault(begin=lambda: _off_loop(manager()), hold_s=for_s)


@asynccontextmanager
async def _off_loop(manager: AbstractContextManager[object]) -> AsyncIterator[None]:
    """Enter and leave in a thread: waiting there for the API server does not hold up the users here."""
    await asyncio.to_thread(manager.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
