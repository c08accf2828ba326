"""Admins see which GPUs are not offered, and other users do not."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.utils import maybe_future
from kubernetes_asyncio.client import V1Container, V1ResourceRequirements
from tornado import web

from gpuspawner.hub.form.warnings import AdminWarnings
from gpuspawner.hub.spawner import GPUSpawner
from tests.unit.hub.conftest import MakeSpawner, node
from tests.unit.hub.pages import opened_by
from tests.unit.kube.watch_server import NODES, WatchServer, eventually

HOSTILE = "A100-MIG-INVALID</script><img src=x onerror=alert(1)>"
FOLD_OUT = "#gpuspawner-admin"


@pytest.fixture(autouse=True)
def invalid_node(server: WatchServer) -> None:
    server.put(NODES, node("odd-1", {"nvidia.com/gpu.product": HOSTILE}))


def looking(*, admin: bool) -> Any:
    user = SimpleNamespace(name="viewer", admin=admin)
    return SimpleNamespace(current_user=user, request=SimpleNamespace(headers={}))


async def test_an_admin_sees_it_for_any_users_server(make_spawner: MakeSpawner):
    page = await opened_by(looking(admin=True), make_spawner(name="ada"))
    (item,) = page.select(f"{FOLD_OUT} li")
    assert item.text.startswith(
        "odd-1: No GPU is offered: the MIG layout is not the same on all GPUs (A100-MIG-INVALID"
    )
    assert page.select("img") == []


async def test_other_users_do_not_see_it(make_spawner: MakeSpawner):
    page = await opened_by(looking(admin=False), make_spawner())
    assert page.select(FOLD_OUT) == []
    assert "odd-1" not in str(page)


async def test_a_user_whose_form_an_admin_has_opened_does_not_see_it(make_spawner: MakeSpawner):
    spawner = make_spawner()

    async def post() -> str:
        with pytest.raises(web.HTTPError):
            await maybe_future(spawner.run_options_from_form({"cpu": ["3cores"]}))
        return str(await spawner.get_options_form())

    await opened_by(looking(admin=True), spawner)
    assert "odd-1" not in await asyncio.create_task(post(), context=copy_context())


async def test_a_user_who_looks_at_the_same_time_as_an_admin_does_not_see_it(make_spawner: MakeSpawner):
    spawner = make_spawner()
    admin_came = asyncio.Event()

    async def get() -> str:
        spawner.handler = looking(admin=False)
        await admin_came.wait()
        return str(await spawner.get_options_form())

    user = asyncio.create_task(get())
    await asyncio.sleep(0)
    assert (await opened_by(looking(admin=True), spawner)).select(FOLD_OUT)
    admin_came.set()
    assert "odd-1" not in await user


async def test_the_hubs_log_tells_of_gpus_in_containers_that_servers_lose(
    make_spawner: MakeSpawner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(GPUSpawner, "admin_warnings", AdminWarnings(soon_s=0, pause_s=0))

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]

    beside = V1Container(name="s", image="s", resources=V1ResourceRequirements(limits={"amd.com/gpu": 2}))
    traits: dict[str, Any] = {
        "extra_container_config": {"resources": {"limits": {"nvidia.com/gpu": "1", "acme.com/nic": "1"}}},
        "extra_containers": [beside],
    }
    await make_spawner(log=logging.getLogger("hub"), kubespawner=traits).get_options_form()
    await eventually(told)
    why = (
        "are dropped from each server: only extra_resource_limits can make GPUs the form's default choice. A server "
        "gets the GPUs that its user chooses."
    )
    assert told() == [f"extra_container_config: 1 nvidia.com/gpu {why}", f"extra_containers: 2 amd.com/gpu {why}"]
