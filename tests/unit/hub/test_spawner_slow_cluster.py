"""A slow API server delays a form by ``capacity_timeout`` at most; each request delays forms for that time once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import SETTINGS, MakeSpawner
from tests.unit.kube.watch_server import WatchServer

TIMEOUT_S = 1.0
BUSY_S = 1.5
"""Seconds that this machine may take to render a form while it does something else."""
SLOW = {
    **SETTINGS,
    "capacity_timeout": TIMEOUT_S,
    "policy": {"default": {"max_gpus": 4}},
    "presets": {
        "a": {"display_name": "A", "image": "minimal"},
        "b": {"display_name": "B", "image": "pytorch", "gpu": "a100"},
        "c": {"display_name": "C", "image": "minimal", "gpu": "mi210"},
    },
}
CLAIMS = ("home", "data")
HOMES = {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in CLAIMS]}


async def measure(form: Awaitable[object]) -> float:
    """Return the seconds that a form takes."""
    begun_at = asyncio.get_running_loop().time()
    await form
    return asyncio.get_running_loop().time() - begun_at


@pytest.fixture
async def spawner(make_spawner: MakeSpawner) -> GPUSpawner:
    return make_spawner(settings=SLOW, kubespawner=HOMES)


async def test_an_api_server_that_never_answers_delays_two_forms_at_most(spawner: GPUSpawner, server: WatchServer):
    server.open_.clear()
    # A request that the first form makes just before its time is over gets its time from the second.
    for _ in range(2):
        assert await measure(spawner.get_options_form()) < TIMEOUT_S + BUSY_S
    for _ in range(3):
        assert await measure(spawner.get_options_form()) < TIMEOUT_S


async def test_requests_of_a_form_that_get_no_answer_delay_forms_once(spawner: GPUSpawner, server: WatchServer):
    resources = ("pods", "resourcequotas", *(f"persistentvolumeclaims/{name}" for name in CLAIMS))
    server.held |= {f"/api/v1/namespaces/{spawner.namespace}/{resource}" for resource in resources}
    # The first form has no time left when it asks for its volumes, so the second form gives them their time.
    for _ in range(2):
        assert await measure(spawner.get_options_form()) < TIMEOUT_S + BUSY_S
    for _ in range(3):
        assert await measure(spawner.get_options_form()) < TIMEOUT_S
