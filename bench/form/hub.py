"""JupyterHub in a process of its own, in front of a control plane; without a proxy, so users ask it directly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.control_plane import HOST, ControlPlane
from bench.spawn import cpu_s
from devcluster.errors import DevclusterError
from devcluster.namespaces import die_with_parent
from devcluster.ports import free_ports
from devcluster.processes import poll

START_TIMEOUT_S = 60
CHECKOUT = Path(__file__).resolve().parents[2]
CONFIG = """
import json
from jupyterhub.proxy import Proxy


class NoProxy(Proxy):
    routes = {{}}

    async def get_all_routes(self):
        return self.routes

    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {{"routespec": routespec, "target": target, "data": data}}

    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)


c = get_config()  # noqa
c.JupyterHub.proxy_class = NoProxy
c.NoProxy.should_start = False
c.JupyterHub.spawner_class = "gpuspawner.GPUSpawner"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.bind_url = c.JupyterHub.hub_bind_url = {url!r}
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret_file = "cookie_secret"
c.Authenticator.allow_all = True
c.KubeSpawner.namespace = "team-0"
for name, value in json.loads({settings!r}).items():
    c.GPUSpawner[name] = value
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningHub:
    """A hub.

    :param url: its address, without a slash at the end.
    :param pid: of its process.
    """

    url: str
    pid: int
    log: Path

    def cpu_s(self) -> float:
        """Return the processor time that it has taken so far, in seconds."""
        return cpu_s(self.pid)

    def errors(self) -> list[str]:
        """Return the lines of its log that tell of an error."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith(("[E", "Trace"))]


@contextmanager
def running_hub(plane: ControlPlane, settings: Mapping[str, Any]) -> Iterator[RunningHub]:
    """Start a hub with these settings of gpuspawner, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="gpuspawner-bench-hub-") as name:
        folder, url = Path(name), f"http://{HOST}:{free_ports((HOST,))[0]}"
        config = folder / "jupyterhub_config.py"
        config.write_text(CONFIG.format(url=url, settings=json.dumps(settings)))
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with (folder / "hub.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", f"--config={config}"],
                cwd=folder,
                env={**kept, "PYTHONPATH": str(CHECKOUT), "KUBECONFIG": str(plane.kubeconfig())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - a call into the C library only
            )
        hub = RunningHub(url=url, pid=process.pid, log=folder / "hub.log")
        try:
            if not poll(lambda: process.poll() is not None or _answers(url), timeout_s=START_TIMEOUT_S):
                raise DevclusterError("the hub does not answer")
            if process.poll() is not None:
                raise DevclusterError(f"the hub ended:\n{hub.log.read_text()[-3000:]}")
            yield hub
        finally:
            process.terminate()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/hub/api/", timeout=5):  # noqa: S310 - http
            return True
    except (urllib.error.URLError, OSError):
        time.sleep(0.1)
        return False
