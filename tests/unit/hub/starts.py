"""A start as JupyterHub and KubeSpawner do it, up to the pod's manifest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyterhub.objects import Hub
from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from traitlets.config import Config

from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
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


def plain_spawner(traits: dict[str, Any]) -> KubeSpawner:
    user = SimpleNamespace(name="ada", id=1, url="/user/ada/", settings={}, groups=[], escaped_name="ada")
    hub, config = Hub(ip="127.0.0.1", port=8081), Config({"KubeSpawner": traits})
    return KubeSpawner(hub=hub, user=user, config=config, api_token="secret", oauth_client_id="unused")


async def plain_pod(
    ours: GPUSpawner, traits: dict[str, Any] | KubeSpawner, *, options: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the pod of KubeSpawner itself, as the API server gets it.

    :param traits: of a new spawner, or the spawner.
    """
    plain = traits if isinstance(traits, KubeSpawner) else plain_spawner(traits)
    plain.user_options = options or {}
    plain.clear_state()
    await plain.load_user_options()
    pod: dict[str, Any] = ours.api.api_client.sanitize_for_serialization(await plain.get_pod_manifest())
    return pod


def without_our_annotations(pod: dict[str, Any]) -> dict[str, Any]:
    annotations = pod["metadata"].get("annotations", {})
    kept = {name: value for name, value in annotations.items() if not name.startswith(ANNOTATION_PREFIX)}
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def our_annotations(pod: dict[str, Any]) -> dict[str, str]:
    """Return gpuspawner's annotations of a pod, without their prefix."""
    annotations = pod["metadata"].get("annotations", {}).items()
    return {
        name.removeprefix(ANNOTATION_PREFIX): value for name, value in annotations if name.startswith(ANNOTATION_PREFIX)
    }


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0]["env"]}
