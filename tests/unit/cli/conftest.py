"""Common parts of tests of commands that read a cluster: a server for lists and watches, and a way to it."""

from __future__ import annotations

import argparse
import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.cluster.cluster_view import ClusterView, add_view_arguments, open_cluster_viewer
from tests.unit.kube.watch_server import NODES, PODS, WatchServer, serve_watches

Parsed = Callable[..., argparse.Namespace]

A100 = "NVIDIA-A100-SXM4-80GB"


def gpu_node(name: str, *, gpus: int = 4, working: int | None = None, **spec: Any) -> dict[str, Any]:
    """Return a node as GPU Feature Discovery labels it."""
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": A100}},
        "spec": spec,
        "status": {
            "capacity": {**amounts, "nvidia.com/gpu": str(gpus)},
            "allocatable": {**amounts, "nvidia.com/gpu": str(gpus if working is None else working)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def gpu_pod(name: str, *, on: str | None = "gpu-1", gpus: int = 1) -> dict[str, Any]:
    """Return a pod that holds GPUs, or waits for them."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": resources}]}
    return {
        "metadata": {"name": name, "namespace": "other", "uid": name},
        "spec": spec if on is None else {**spec, "nodeName": on},
        "status": {"phase": "Pending" if on is None else "Running"},
    }


@pytest.fixture
async def server() -> AsyncIterator[WatchServer]:
    async with serve_watches() as answering:
        answering.put(NODES, gpu_node("gpu-1"))
        answering.put(PODS, gpu_pod("holder"))
        yield answering


@pytest.fixture
def kubeconfig(server: WatchServer, tmp_path: Path) -> str:
    return written_kubeconfig(server.url, tmp_path)


def written_kubeconfig(url: str, folder: Path) -> str:
    path = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "jhub"}}
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [context],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def parsed(kubeconfig: str, tmp_path: Path) -> Parsed:
    """Parse what a command that looks was called with; ``values`` is written into a file of its own."""

    def parse(*arguments: str, values: Any = None) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        add_view_arguments(parser)
        return parser.parse_args([*calls(kubeconfig, tmp_path, values), *arguments])

    return parse


def calls(kubeconfig: str, folder: Path, values: Any) -> list[str]:
    """Return the arguments that name the cluster and the values."""
    if values is None:
        return ["--kubeconfig", kubeconfig]
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return ["--kubeconfig", kubeconfig, "-f", str(path)]


def settings(**more: Any) -> dict[str, Any]:
    """Return values with settings of gpuspawner."""
    return {"hub": {"config": {"GPUSpawner": more}}}


async def view_cluster_once(arguments: argparse.Namespace) -> ClusterView:
    """Return the state of the cluster at one moment."""
    async with open_cluster_viewer(arguments) as viewer:
        return await viewer.read_view()


class Call:
    """A command in front of the server; ``COMMAND`` of the test's module names it, ``VALUES`` its usual values."""

    def __init__(self, module: Any, kubeconfig: str, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self.notes = io.StringIO()
        self._command, self._values = module.COMMAND, getattr(module, "VALUES", None)
        self._folder = folder

    async def __call__(self, *arguments: str, values: Any = None) -> tuple[int, str]:
        """Return exit code and output; the command has a loop of its own, so it runs beside the server's."""
        parser = argparse.ArgumentParser()
        self._command.configure(parser)
        given = calls(self.kubeconfig, self._folder, self._values if values is None else values)
        out, self.notes = io.StringIO(), io.StringIO()
        run = self._command.run
        code = await asyncio.to_thread(run, parser.parse_args([*given, *arguments]), out=out, notes=self.notes)
        return code, out.getvalue()


@pytest.fixture
def call(request: pytest.FixtureRequest, kubeconfig: str, tmp_path: Path) -> Call:
    return Call(request.module, kubeconfig, tmp_path)
