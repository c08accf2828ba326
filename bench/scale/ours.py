"""Ours: a spawner as the hub has it, with its store of the cluster, its form and its verdicts."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from jupyterhub.objects import Hub
from kubespawner.clients import load_config, shared_client
from traitlets.config import Config

from bench.scale import gauges, objects
from bench.scale.subject import Commands
from gpuspawner.core.cluster.model import Pod
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.request.selection import validate
from gpuspawner.core.verdict.verdict import predict_verdict
from gpuspawner.hub.pod.preview import PodPreviews
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.kube.client.api_requests import read_body
from gpuspawner.kube.store import OBJECTS_PER_PAGE, ClusterStore, StoreTiming

PACE = StoreTiming(first_sync_timeout_s=100.0)
"""The first caller waits until everything is read, instead of three seconds as in the hub."""
WARM_UP = 20
NODE_CHANGES = 20


@asynccontextmanager
async def whole_store() -> AsyncIterator[Commands]:
    """Open the store of nodes and pods, with a spawner before it."""
    load_config()
    config = Config({"GPUSpawner": objects.settings()})
    user = SimpleNamespace(name="ada", id=1, url="/user/ada/", settings={}, groups=[], escaped_name="ada")
    spawner = GPUSpawner(
        hub=Hub(ip="127.0.0.1", port=8081),
        user=user,
        config=config,
        api_token="secret",  # noqa: S106 - never sent
        oauth_client_id="unused",
    )
    store = GPUSpawner.offer_factory.get_store(spawner.api, pace=PACE)
    subject = _Ours(spawner, store)
    try:
        yield {"sync": subject.sync, "window": subject.window, "render": subject.render, "verdict": subject.verdict}
    finally:
        await store.stop()


@asynccontextmanager
async def store_of_nodes() -> AsyncIterator[Commands]:
    """Open a store in a cluster that seems to have no pods, to tell the memory of nodes from that of pods."""
    load_config()
    store = ClusterStore(_WithoutPods(shared_client("CoreV1Api")), pace=PACE)
    subject = _Ours(None, store)
    try:
        yield {"sync": subject.sync}
    finally:
        await store.stop()


class _WithoutPods:
    """A client whose lists of pods are empty."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.api_client = api.api_client
        self.list_node = api.list_node

    def list_pod_for_all_namespaces(self, **arguments: Any) -> Awaitable[Any]:
        arguments["field_selector"] = "metadata.name=none"
        answer: Awaitable[Any] = self._api.list_pod_for_all_namespaces(**arguments)
        return answer


class _Ours:
    """A store, and a spawner that asks it."""

    def __init__(self, spawner: Any, store: ClusterStore) -> None:
        self._spawner = spawner
        self._store = store
        self._numbers = itertools.count()

    async def sync(self, _: int) -> dict[str, float]:
        """Read the cluster for the first time."""
        await self._warm_up()
        found = await gauges.first_read(self._read)
        inventory = await self._store.read_inventory()
        pods = inventory.occupancy.iter_pods() if inventory.occupancy else ()
        return {**found, "nodes": len(inventory.nodes or ()), "pods": sum(1 for _ in pods)}

    async def window(self, seconds: int) -> dict[str, float]:
        """Follow the cluster for a while, asked once a second, as ten open forms do."""
        return await gauges.window(seconds, each_second=self._store.read_inventory)

    async def render(self, number: int) -> dict[str, float]:
        """Render the form with a choice of each type in turn, half of the times after a pod changed."""
        unchanged, changed = gauges.Stopwatch(), gauges.Stopwatch()
        html = ""
        for turn, kind, count in self._choices(2 * (number + WARM_UP)):
            has_changed = turn % 2 == 1
            if has_changed:
                self._change_pod(await self._store.read_inventory())
            self._spawner.user_options = _options(kind, count)
            with (changed if has_changed else unchanged).lap():
                html = await self._spawner.get_options_form()
            await asyncio.sleep(0)
        return {
            **changed.percentiles(warm_up=WARM_UP),
            "unchanged_p99_ms": unchanged.percentiles(warm_up=WARM_UP)["p99_ms"],
            "node_changed_p50_ms": await self._after_node_changes(),
            "html_bytes": len(html.encode()),
        }

    async def _after_node_changes(self) -> float:
        """Return how many milliseconds a form takes after a node was cordoned, which makes the catalog anew."""
        times_s: list[float] = []
        for number in range(NODE_CHANGES):
            inventory = await self._store.read_inventory()
            if inventory.occupancy is None or inventory.nodes is None:
                raise RuntimeError("the cluster is not known")
            node = inventory.nodes[number * 7919 % len(inventory.nodes)]
            inventory.occupancy.put_node(replace(node, unschedulable=not node.unschedulable))
            began = time.perf_counter()
            await self._spawner.get_options_form()
            times_s.append(time.perf_counter() - began)
        return 1000 * statistics.median(times_s)

    async def verdict(self, number: int) -> dict[str, float]:
        """Reach a verdict on one choice after the other, each after a pod changed."""
        offer = await self._spawner.make_offer()
        outcomes: Counter[str] = Counter()
        alone, with_manifest = gauges.Stopwatch(), gauges.Stopwatch()
        for _, kind, count in self._choices(number + WARM_UP):
            self._change_pod(offer.inventory)
            selection = validate(_options(kind, count), offer.catalog)
            with with_manifest.lap():
                previews = PodPreviews(self._spawner, offer)
                await previews.prepare(selection)
                pod = previews.find_pod(selection)
                with alone.lap():
                    reached = predict_verdict(pod, offer.inventory, gpu=offer.catalog.gpus[objects.gpu_slug(kind)])
            outcomes[reached.outcome.value] += 1
            await asyncio.sleep(0)
        found = with_manifest.percentiles(warm_up=WARM_UP)
        return {
            **alone.percentiles(warm_up=WARM_UP),
            "with_manifest_p50_ms": found["p50_ms"],
            "with_manifest_p99_ms": found["p99_ms"],
            **{f"{outcome}_count": count for outcome, count in sorted(outcomes.items())},
        }

    async def _warm_up(self) -> None:
        """Open a connection and read a page of each, so that what any request takes is there before."""
        api = self._store._api
        for method in (api.list_node, api.list_pod_for_all_namespaces):
            json.loads(await read_body(await method(limit=OBJECTS_PER_PAGE, _preload_content=False)))

    async def _read(self) -> None:
        if (await self._store.read_inventory()).occupancy is None:
            raise TimeoutError("the cluster was not read in time")

    def _choices(self, number: int) -> Iterator[tuple[int, int, int]]:
        """Yield a turn's number, a GPU type and how many of it, so that all of them meet."""
        for turn in range(number):
            yield turn, turn // 2 % objects.GPU_TYPES, 1 + turn // 2 // objects.GPU_TYPES % objects.GPUS_PER_NODE

    def _change_pod(self, inventory: Inventory) -> None:
        """Take a new pod in on some node, as the watch would."""
        if inventory.occupancy is None or inventory.nodes is None:
            raise RuntimeError("the cluster is not known")
        number = next(self._numbers)
        node = inventory.nodes[number * 7919 % len(inventory.nodes)].name
        pod = Pod(name=f"new-{number % 500}", namespace="new", node=node, requests={"cpu": 100 + number % 700})
        inventory.occupancy.put_pod(replace(pod, created=str(number)))


def _options(kind: int, count: int) -> dict[str, object]:
    gpu = {"gpu": objects.gpu_slug(kind), "gpu_count": count}
    return {"v": 1, "image": f"image-{kind % 10}", "cpu": 4 + kind % 30, "memory": f"{8 + 4 * kind}G", **gpu}
