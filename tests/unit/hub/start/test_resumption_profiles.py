"""Starts of KubeSpawner's profiles outlast the hub, without settings of gpuspawner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuspawner.hub.start import resumption
from tests.unit.hub.conftest import A100, MakeSpawner
from tests.unit.hub.real_hub import notebook, real_hub, unused_port
from tests.unit.hub.start.test_resumption import OWN_PODS, pod_of, running
from tests.unit.hub.starts import pod_of as build_pod
from tests.unit.kube.watch_server import NODES, WatchServer, eventually, refusal

GPU = "nvidia.com/gpu"
PROFILES = [
    {"display_name": "CPU only", "slug": "cpu"},
    {
        "display_name": "One A100",
        "slug": "a100",
        "kubespawner_override": {
            "extra_resource_limits": {GPU: "1"},
            "node_selector": {"nvidia.com/gpu.product": A100},
            "start_timeout": 900,
        },
    },
    {"display_name": "Any GPU", "slug": "any", "kubespawner_override": {"extra_resource_limits": {"amd.com/gpu": "1"}}},
]
TRAITS: dict[str, Any] = {"profile_list": PROFILES, "namespace": "default"}


@pytest.mark.parametrize(
    ("slug", "expected"),
    [("cpu", (None, "none")), ("a100", ("A100 80 GB", "a100-80gb")), ("any", (None, "other"))],
)
async def test_the_pod_tells_the_gpu_of_a_resumed_start(
    make_spawner: MakeSpawner, server: WatchServer, slug: str, expected: tuple[str | None, str]
):
    pod = await build_pod(make_spawner(settings={}, kubespawner=TRAITS), {"profile": slug})
    pod["metadata"] |= {"namespace": "default", "uid": "1"}
    server.put(OWN_PODS, {**pod, "status": {"phase": "Pending"}})
    spawner = make_spawner(settings={}, kubespawner=TRAITS)
    spawner.user_options = {"profile": slug}
    await spawner._start_watching_pods()
    gpu, label = await resumption._recall_gpu(spawner)
    assert (gpu and gpu.display_name, label) == expected


@pytest.mark.parametrize("denies_nodes", [False, True], ids=["pod gone", "pod gone and no nodes"])
async def test_the_gpu_of_a_resumed_start_whose_pod_is_gone_is_unknown(
    make_spawner: MakeSpawner, server: WatchServer, denies_nodes: bool
):
    if denies_nodes:
        server.answers["GET", NODES] = refusal(403)
    spawner = make_spawner(settings={}, kubespawner=TRAITS)
    spawner.user_options = {"profile": "a100"}
    await spawner._start_watching_pods()
    assert await resumption._recall_gpu(spawner) == (None, "other")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_start_of_a_profile_goes_on_and_a_failed_one_says_why_after_a_restart_of_the_hub(
    server: WatchServer, tmp_path: Path
):
    port = unused_port()
    config = {"KubeSpawner": {**TRAITS, "port": port}}
    async with notebook(port), real_hub(tmp_path, api=server.url, config=config) as hub:
        pods = {}
        for user in ("waits", "gone"):
            await hub.begin(user, {"profile": "a100"})
            pods[user] = await pod_of(server, user)
            server.put(OWN_PODS, pods[user])
            await eventually(lambda user=user: hub.has_stored_start(user))
        await hub.follow("waits", "A100")
        (page,) = await hub.read_pages("waits", "/hub/spawn-pending/waits")
        assert "1 × A100 80 GB" in page
        await hub.kill()
        server.delete(OWN_PODS, pods["gone"])
        await hub.start()

        told = (await hub.follow("waits", "Gives up in"))["message"]
        server.put(OWN_PODS, running(pods["waits"]))
        await hub.wait_until("waits", "ready")
        await hub.wait_until("gone", "stopped")
        reason = (await hub.follow("gone", "Spawn failed: "))["message"]
        (home,) = await hub.read_pages("waits", "/hub/home")
        (spawn,) = await hub.read_pages("gone", "/hub/spawn")

        assert "1 × A100 80 GB" in told
        assert "was ended from outside while it was starting." in reason
        assert ["One A100 · 1 × A100 80 GB" in home, "was ended from outside" in spawn] == [True, True]
