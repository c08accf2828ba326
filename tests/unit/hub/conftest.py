"""Real spawner objects, without a hub, in front of a server that answers lists and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubespawner.clients
import pytest
import yaml
from jupyterhub.objects import Hub
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import kube_config
from traitlets.config import Config

from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import OfferFactory
from gpuspawner.hub.config.settings_files import SettingsFilesCache
from gpuspawner.hub.errors import FailureCount
from gpuspawner.hub.form.warnings import AdminWarnings
from gpuspawner.hub.kubespawner.reflectors import EventsAccess
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.start.gpu_nodes import GPUNodeExclusion
from gpuspawner.hub.start.preflight import NewClaims
from tests.unit.kube.watch_server import NODES, NVIDIA_CLASS, RUNTIME_CLASSES, WatchServer, serve_watches

A100 = "NVIDIA-A100-SXM4-80GB"

SETTINGS: dict[str, Any] = {
    "images": {
        "pytorch": {"display_name": "PyTorch", "image": "registry.example/pytorch:1", "vendors": ["nvidia"]},
        "minimal": {"display_name": "Minimal", "image": "registry.example/minimal:1"},
    },
    "cpu": {"min": 1, "max": 8, "step": 1, "default": 2, "guarantee": 0.5},
    "memory": {"min": "1G", "max": "64G", "step": "1G", "default": "4G"},
    "gpus": {
        "a100": {
            "display_name": "A100",
            "resource": "nvidia.com/gpu",
            "vendor": "nvidia",
            "match": {"nvidia.com/gpu.product": [A100]},
            "max_count": 4,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "runtime_class": "nvidia",
            "shm": 0.5,
            "start_timeout": 900,
        },
        "mi210": {
            "display_name": "MI210",
            "resource": "amd.com/gpu",
            "vendor": "amd",
            "match": {"amd.com/gpu.product": ["MI210", "MI210-B"]},
            "max_count": 2,
        },
    },
}


def node(name: str, labels: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110", **allocatable}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    }


GPU_NODE = node("gpu-1", {"nvidia.com/gpu.product": A100}, **{"nvidia.com/gpu": "4"})
CPU_NODE = node("cpu-1")
CLOSED = {**SETTINGS, "new_nodes": "none"}
"""Settings of a cluster to which nothing adds nodes."""

MakeSpawner = Callable[..., GPUSpawner]


@pytest.fixture
async def server() -> AsyncIterator[WatchServer]:
    async with serve_watches() as answering:
        answering.put(NODES, GPU_NODE, CPU_NODE)
        answering.put(RUNTIME_CLASSES, NVIDIA_CLASS)
        yield answering


def use_api_at(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make KubeSpawner talk to an address: it reads a kubeconfig once and shares its clients.

    :param folder: for the kubeconfig.
    """
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": url}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    document = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"}
    kubeconfig.write_text(yaml.safe_dump(document))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    monkeypatch.setattr(Configuration, "_default", None)
    kubespawner.clients.load_config.cache_clear()


@pytest.fixture
def use_api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Make KubeSpawner talk to an address, for one test."""
    return lambda url: use_api_at(url, tmp_path, monkeypatch)


@asynccontextmanager
async def spawners(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeSpawner]:
    """Make spawners that share what a hub's process shares, and stop all of that in the end."""
    monkeypatch.setattr(GPUSpawner, "offer_factory", OfferFactory(parse_settings))
    monkeypatch.setattr(GPUSpawner, "admin_warnings", AdminWarnings())
    monkeypatch.setattr(GPUSpawner, "admission", AdmissionService())
    monkeypatch.setattr(GPUSpawner, "_events_access", EventsAccess())
    monkeypatch.setattr(GPUSpawner, "_gpu_node_exclusion", GPUNodeExclusion())
    monkeypatch.setattr(GPUSpawner, "settings_files_cache", SettingsFilesCache())
    monkeypatch.setattr(GPUSpawner, "failure_count", FailureCount())
    monkeypatch.setattr(GPUSpawner, "new_claims", NewClaims())
    monkeypatch.setattr(GPUSpawner, "failed_starts", {})

    def make(
        *,
        kind: type[GPUSpawner] = GPUSpawner,
        settings: Any = SETTINGS,
        kubespawner: Any = None,
        name: str = "ada",
        **traits: Any,
    ) -> GPUSpawner:
        config = Config({"GPUSpawner": dict(settings or {}), "KubeSpawner": dict(kubespawner or {})})
        user = SimpleNamespace(name=name, id=1, url=f"/user/{name}/", settings={}, groups=[], escaped_name=name)
        traits = {"api_token": "secret", "oauth_client_id": "unused", **traits}
        return kind(hub=Hub(ip="127.0.0.1", port=8081), user=user, config=config, **traits)

    yield make
    await GPUSpawner._stop_all_reflectors()
    await GPUSpawner.offer_factory.stop()


@pytest.fixture
async def make_spawner(
    server: WatchServer, use_api: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MakeSpawner]:
    use_api(server.url)
    async with spawners(monkeypatch) as make:
        yield make
