"""Others: KubeSpawner's own reflector over the same pods, and a list of all nodes for each request."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from kubespawner.clients import load_config, shared_client
from kubespawner.reflector import ResourceReflector

from bench.scale import gauges
from bench.scale.subject import Commands


class PodReflector(ResourceReflector):
    """KubeSpawner's reflector over the pods of all namespaces; set up as ``kubespawner.spawner.PodReflector`` is."""

    kind = "pods"


@asynccontextmanager
async def reflector() -> AsyncIterator[Commands]:
    """Open a reflector."""
    load_config()
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    watching = PodReflector(omit_namespace=True)

    async def sync(_: int) -> dict[str, float]:
        found = await gauges.first_read(watching.start)
        return {**found, "pods": len(watching.resources)}

    async def window(seconds: int) -> dict[str, float]:
        return await gauges.window(seconds)

    try:
        yield {"sync": sync, "window": window}
    finally:
        if watching.watch_task is not None:
            watching.watch_task.cancel()
            with suppress(asyncio.CancelledError):
                await watching.watch_task


@asynccontextmanager
async def lister() -> AsyncIterator[Commands]:
    """Open a client that lists all nodes for each request, as Kubeflow's form does.

    The asynchronous client, because a hub could not use the other one; both are generated from the same description and
    make the same objects. ``crud-web-apps/jupyter/backend/apps/common/routes/get.py`` (kubeflow/kubeflow),
    ``get_gpu_vendors``.
    """
    load_config()
    api: Any = shared_client("CoreV1Api")

    async def request(number: int) -> dict[str, float]:
        times_s: list[float] = []
        cpu_s = longest_s = 0.0
        listed = 0
        for _ in range(number):
            async with gauges.Ticker(gauges.FINE_S) as ticker:
                began, cpu_began = time.perf_counter(), time.process_time()
                listed = len((await api.list_node()).items)
                times_s.append(time.perf_counter() - began)
                cpu_s += time.process_time() - cpu_began
            longest_s = max(longest_s, ticker.longest_s)
            gc.collect()
        return {
            "request_ms": 1000 * sum(times_s) / number,
            "cpu_ms": 1000 * cpu_s / number,
            "stall_ms": 1000 * longest_s,
            "peak_mb": gauges.peak_bytes() / 1e6,
            "nodes": listed,
        }

    yield {"request": request}
