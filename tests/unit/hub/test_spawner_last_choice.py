"""What a user started last is what the form opens with; a start that the user canceled is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hub.real_hub import RealHub, notebook, real_hub, unused_port
from tests.unit.hub.start.test_resumption import OWN_PODS, config, owner, pod_of, running, sent_pods
from tests.unit.kube.watch_server import WatchServer, eventually, refusal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

RAN = {"image": "minimal", "cpu": 3, "memory": "5G", "gpu": "a100", "gpu_count": 1}
CANCELED = {"image": "pytorch", "cpu": 1, "memory": "1G", "gpu": "a100", "gpu_count": 4}


async def stored_cpu(hub: RealHub) -> Any:
    _, found = await hub.ask("GET", "users/ada?include_stopped_servers")
    return found["servers"][""]["user_options"].get("cpu")


async def stop(hub: RealHub, server: WatchServer, *pods: dict[str, Any]) -> None:
    """Stop or cancel, as a user does, and let the pod go."""
    asked = asyncio.ensure_future(hub.ask("DELETE", "users/ada/server"))
    for pod in pods:
        await eventually(lambda: any(each.method == "DELETE" for each in server.requests))
        server.delete(OWN_PODS, pod)
    await hub.wait_until("ada", "stopped")
    await asked
    server.requests.clear()


async def test_a_canceled_start_is_no_last_choice_and_any_other_end_is(server: WatchServer, tmp_path: Path):
    port = unused_port()
    async with notebook(port), real_hub(tmp_path, api=server.url, config=config(port)) as hub:
        await hub.begin("ada", RAN)
        server.put(OWN_PODS, running(pod := await pod_of(server, "ada")))
        await hub.wait_until("ada", "ready")
        await stop(hub, server, pod)
        assert await stored_cpu(hub) == RAN["cpu"]

        await hub.begin("ada", CANCELED)
        server.put(OWN_PODS, pod := await pod_of(server, "ada"))
        assert await stored_cpu(hub) == CANCELED["cpu"]
        await stop(hub, server, pod)
        assert await stored_cpu(hub) == RAN["cpu"]

        (held := tmp_path / "held-ada").touch()
        begun = hub.read_log().count("Pod is being modified")
        await hub.begin("ada", CANCELED)
        await hub.wait(lambda: asyncio.sleep(0, hub.read_log().count("Pod is being modified") > begun), expected=True)
        await stop(hub, server)
        held.unlink()
        assert await stored_cpu(hub) == RAN["cpu"]
        assert [owner(each) async for each in sent_pods(server)] == []

        server.answers["POST", OWN_PODS] = refusal(422)
        await hub.begin("ada", CANCELED)
        await hub.wait_until("ada", "stopped")
        assert await stored_cpu(hub) == CANCELED["cpu"]
