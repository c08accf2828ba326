"""A real JupyterHub beside a cluster: hub and configurable-http-proxy as processes, servers as pods.

It is the arrangement of zero-to-jupyterhub on one machine: the proxy is a process of its own, so that users keep their
servers while the hub restarts; the hub talks to Kubernetes as a ServiceAccount with the shipped RBAC and nothing more.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.hub_client import HubClient
from devcluster.hub_config import HubSettings, Notebook, Wiring, hub_config
from devcluster.hub_rbac import SERVICE_ACCOUNT, apply_rbac, ensure_namespace
from devcluster.namespaces import die_with_parent
from devcluster.ports import free_ports
from devcluster.processes import Process, poll
from devcluster.run_dir import write

CHECKOUT = Path(__file__).resolve().parent.parent
PROXY_SCRIPT = CHECKOUT / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15
LOG_LINES_SHOWN = 15


class Hub:
    """One JupyterHub with its proxy.

    :param kubeconfig: what the hub reaches the cluster with; None = a ServiceAccount with ``helm-values/rbac.yaml``.
    :param run_dir: folder for its configuration, database and logs; None = one in the cluster's own.
    """

    def __init__(
        self, cluster: Cluster, settings: HubSettings, *, kubeconfig: Path | None = None, run_dir: Path | None = None
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.run_dir = run_dir or cluster.run_dir / f"hub-{settings.namespace}"
        self.log = self.run_dir / "hub.log"
        self.token = secrets.token_hex(16)
        self._kubeconfig = kubeconfig
        self._proxy_token = secrets.token_hex(16)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._wiring: Wiring | None = None

    @property
    def url(self) -> str:
        """The address users open, without a slash at the end."""
        return f"http://127.0.0.1:{self._require_wiring().public_port}"

    @property
    def client(self) -> HubClient:
        """A REST client with a service's token."""
        return HubClient(url=f"{self.url}/hub/api", token=self.token)

    @property
    def hub_pid(self) -> int:
        """Pid of the hub's process, for measurements."""
        return self._processes["hub"].pid

    def start(self) -> Hub:
        """Start proxy and hub and wait until the hub answers.

        :raises DevclusterError: one of them ended or did not answer in time; the message ends with its log.
        """
        self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stop_leftovers()
        self._wiring = self._wire()
        if self._kubeconfig is None:
            with self.cluster.api_client() as api:
                ensure_namespace(api, self.settings.namespace)
                apply_rbac(api, self.settings.namespace)
            self._kubeconfig = self.cluster.service_account_kubeconfig(self.settings.namespace, SERVICE_ACCOUNT)
        try:
            self._start_proxy()
            self.start_hub()
        except BaseException:
            self.stop()
            raise
        return self

    def start_hub(self) -> None:
        """Start the hub's process alone, beside a proxy that runs, and wait until it answers."""
        wiring = self._require_wiring()
        config = hub_config(self.settings, wiring, notebook=self._notebook())
        path = write(self.run_dir / "jupyterhub_config.json", json.dumps(config, indent=1))
        command = [str(self.settings.python), "-m", "jupyterhub", f"--config={path}"]
        self._spawn("hub", command, KUBECONFIG=str(self._kubeconfig), CONFIGPROXY_AUTH_TOKEN=self._proxy_token)
        self._wait_for_hub()

    def stop_hub(self) -> None:
        """Stop the hub's process alone; proxy and servers go on."""
        self._stop("hub")

    def restart(self) -> None:
        """Stop and start the hub; proxy and servers go on."""
        self.stop_hub()
        self.start_hub()

    def stop(self) -> None:
        """Stop hub and proxy; servers go on. Nothing happens where they do not run."""
        for name in ("hub", "proxy"):
            self._stop(name)

    def __enter__(self) -> Hub:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def failure(self) -> str:
        """Say which of the two processes has ended by itself, empty while both run."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                return f"the {name} ended with status {process.returncode}:\n{self.log_tail(name)}"
        return ""

    def log_tail(self, name: str = "hub") -> str:
        """Return the last lines of a process's log."""
        try:
            lines = (self.run_dir / f"{name}.log").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-LOG_LINES_SHOWN:])

    def _wire(self) -> Wiring:
        hub_port, api_port, public_port = free_ports((self.cluster.gateway, "127.0.0.1", "127.0.0.1"))
        return Wiring(
            hub_host=self.cluster.gateway,
            hub_port=hub_port,
            public_port=self.settings.port or public_port,
            proxy_api_port=api_port,
            api_token=self.token,
            run_dir=self.run_dir,
        )

    def _require_wiring(self) -> Wiring:
        if self._wiring is None:
            raise DevclusterError("this hub was not started")
        return self._wiring

    def _notebook(self) -> Notebook:
        environment = self.settings.python.parent.parent
        volumes, mounts = self.cluster.notebook_volumes()
        if not any(environment.is_relative_to(mount["mountPath"]) for mount in mounts):
            volumes = [*volumes, {"name": "environment", "hostPath": {"path": str(environment), "type": "Directory"}}]
            mounts = [*mounts, {"name": "environment", "mountPath": str(environment), "readOnly": True}]
        return Notebook(
            image=self.cluster.notebook_image,
            volumes=volumes,
            mounts=mounts,
            cmd=[str(self.settings.python), "-m", "jupyterhub.singleuser"],
            environment={"PATH": f"/opt/demo/bin:{environment}/bin:/usr/local/bin:/usr/bin:/bin"},
        )

    def _start_proxy(self) -> None:
        wiring = self._require_wiring()
        command = ["node", str(PROXY_SCRIPT), "--ip=127.0.0.1", f"--port={wiring.public_port}"]
        command += ["--api-ip=127.0.0.1", f"--api-port={wiring.proxy_api_port}", "--log-level=warn"]
        command += [f"--error-target=http://{wiring.hub_host}:{wiring.hub_port}/hub/error"]
        if not PROXY_SCRIPT.exists():
            raise DevclusterError("configurable-http-proxy is not installed: run `npm ci` in the checkout")
        self._spawn("proxy", command, CONFIGPROXY_AUTH_TOKEN=self._proxy_token)
        self._wait("proxy", lambda: _listens(wiring.public_port), failure="does not listen")

    def _spawn(self, name: str, command: Sequence[str], **variables: str) -> None:
        with (self.run_dir / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.run_dir,
                # This checkout's code, also where the environment was made for another checkout.
                env=_environment({"PYTHONPATH": str(CHECKOUT), **variables}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of the terminal's foreground group: Ctrl-C reaches the program that started it, which stops it.
                # One that is killed and cannot takes them along.
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - a call into the C library only
            )
        self._processes[name] = process
        if identity := Process.of(process.pid):
            identity.save(self._pid_file(name))

    def _pid_file(self, name: str) -> Path:
        return self.run_dir / f"{name}.pid"

    def _wait_for_hub(self) -> None:
        client = HubClient(url=f"{self.url}/hub/api")

        def answers() -> bool:
            try:
                return client.request("GET", "/").status == 200  # noqa: PLR2004 - HTTP OK
            except OSError:
                return False

        self._wait("hub", answers, failure="does not answer")

    def _wait(self, name: str, condition: Any, *, failure: str) -> None:
        process = self._processes[name]
        ready = poll(lambda: process.poll() is not None or condition(), timeout_s=START_TIMEOUT_S)
        if ended := self.failure():
            raise DevclusterError(ended)
        if not ready:
            raise DevclusterError(f"the {name} {failure} after {START_TIMEOUT_S} s:\n{self.log_tail(name)}")

    def _stop(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._pid_file(name).unlink(missing_ok=True)

    def _stop_leftovers(self) -> None:
        """End what an earlier run that was killed has left in this folder; it would hold the port and the database."""
        for name in ("hub", "proxy"):
            leftover = Process.load(self._pid_file(name))
            if leftover and leftover.kill(signal.SIGTERM) and not leftover.wait(STOP_TIMEOUT_S):
                leftover.kill()
            self._pid_file(name).unlink(missing_ok=True)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a hub: what it needs, and nothing that would lead it to another cluster or a proxy."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "LC_ALL", "TZ"}}
    return {**kept, "PYTHONUNBUFFERED": "1", **variables}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
