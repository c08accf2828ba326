"""Counts of a spawner while JupyterHub and KubeSpawner call it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from prometheus_client import REGISTRY
from tornado import web

from gpuspawner.hub.errors import RefusedStart
from gpuspawner.hub.metrics.registry import METRICS_PREFIX
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner
from tests.unit.hub.counts import sample
from tests.unit.hub.starts import GPU_OPTIONS, begin


async def started(spawner: GPUSpawner, options: dict[str, Any]) -> BaseException | None:
    """Start as far as the pod's rehearsal, as a task that the hub keeps; return what it ended with."""

    async def start() -> None:
        await begin(spawner, options)
        await spawner._run_preflight()

    future = spawner._spawn_future = asyncio.ensure_future(start())
    await asyncio.wait([future])
    await asyncio.sleep(0)
    return future.exception()


async def test_a_start_is_counted_by_its_type_and_its_verdict(make_spawner: MakeSpawner):
    before = (
        sample("spawns_total", gpu="a100", outcome="ready"),
        sample("verdicts_total", verdict="now", outcome="ready"),
    )
    assert await started(make_spawner(kubespawner={"storage_pvc_ensure": False}), GPU_OPTIONS) is None
    after = (
        sample("spawns_total", gpu="a100", outcome="ready"),
        sample("verdicts_total", verdict="now", outcome="ready"),
    )
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


async def test_a_form_that_is_refused_is_no_start(make_spawner: MakeSpawner):
    before = sample("refusals_total", reason="out_of_range"), sample("spawns_total", gpu="a100", outcome="out_of_range")
    with pytest.raises(web.HTTPError):
        await maybe_future(make_spawner().run_options_from_form({"gpu": ["a100"], "gpu_count": ["9"]}))
    after = sample("refusals_total", reason="out_of_range"), sample("spawns_total", gpu="a100", outcome="out_of_range")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 0)


async def test_a_pod_that_was_taken_is_no_refusal_though_it_was_never_seen(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch
):
    async def taken(*_: Any, **__: Any) -> bool:
        return True

    monkeypatch.setattr(KubeSpawner, "_make_create_pod_request", taken)
    spawner = make_spawner(kubespawner={"storage_pvc_ensure": False})
    future = spawner._spawn_future = asyncio.get_running_loop().create_future()
    await begin(spawner, GPU_OPTIONS)
    assert await spawner._make_create_pod_request(await spawner.get_pod_manifest(), 1.0) is True
    future.set_exception(RefusedStart("No.", reason="metered_late", status_code=409))
    await asyncio.wait([future])
    await asyncio.sleep(0)
    assert sample("spawns_total", gpu="a100", outcome="metered_late") == 1
    assert sample("refusals_total", reason="metered_late") == 0


def test_the_hubs_own_registry_tells_what_servers_hold_and_how_the_cluster_is_read():
    names = {metric.name for metric in REGISTRY.collect()}
    assert {f"{METRICS_PREFIX}_servers", f"{METRICS_PREFIX}_gpus", f"{METRICS_PREFIX}_inventory_age_seconds"} <= names
