"""A start as JupyterHub and KubeSpawner do it, up to the pod's manifest."""

from __future__ import annotations

from typing import Any

from jupyterhub.utils import maybe_future

from gpuspawner.hub.spawner import GPUSpawner

GPU_OPTIONS = {"image": "pytorch", "cpu": 4, "memory": "16G", "gpu": "a100", "gpu_count": 2}


async def begin(spawner: GPUSpawner, options: dict[str, Any]) -> None:
    """Do what JupyterHub and KubeSpawner do up to the point where the pod is made."""
    spawner.user_options = options
    spawner.clear_state()
    await spawner.apply_group_overrides()
    await spawner._run_apply_user_options(spawner.user_options)
    await maybe_future(spawner.run_pre_spawn_hook())
    await spawner.load_user_options()


async def pod_of(spawner: GPUSpawner, options: dict[str, Any]) -> dict[str, Any]:
    await begin(spawner, options)
    manifest = await spawner.get_pod_manifest()
    pod: dict[str, Any] = spawner.api.api_client.sanitize_for_serialization(manifest)
    return pod


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0]["env"]}
