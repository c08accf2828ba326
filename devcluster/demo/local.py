"""The demo on a Kubernetes of its own."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from devcluster.cluster import Cluster
from devcluster.demo.occupy import occupy_simulated_nodes
from devcluster.demo.values import LOCAL, Values
from devcluster.errors import DevclusterError
from devcluster.hub import Hub
from devcluster.hub_config import HubSettings

FLEET = Path(__file__).parent.parent / "fleet.yaml"
NAMESPACE = "demo"
PASSWORD = "gpuspawner"  # noqa: S105 - printed on purpose: the hub listens on this machine only
ADMIN = "admin"
"""The user who sees what admins see."""

Report = Callable[[str], object]


class LocalDemo:
    """A cluster with a fleet and a hub; what it starts it stops.

    :param name: of the cluster.
    :param port: of the address users open.
    :param report: gets a line for each step.
    :param values: file with what users may ask for.
    """

    def __init__(self, *, name: str, port: int, report: Report, values: Path = LOCAL) -> None:
        self._values = Values.read(values)
        self._name = name
        self._port = port
        self._report = report
        self._started = ExitStack()
        self.admin_password = make_admin_password()
        self.hub: Hub | None = None

    def start(self) -> str:
        """Start everything and return the address to open.

        :raises DevclusterError: something is missing or did not start; what had started until then still runs.
        """
        refuse_taken_port(self._port)
        self._started.callback(self._stop_cluster)
        cluster = Cluster.up(name=self._name, simulated_nodes=FLEET, report=self._report)
        self._report("filling the simulated nodes")
        with cluster.api_client() as api:
            occupy_simulated_nodes(api, image=cluster.pause_image)
        self._report("starting JupyterHub")
        sections = self._values.hub_sections()
        offer = sections.pop("GPUSpawner", {})
        settings = HubSettings(
            namespace=NAMESPACE,
            gpuspawner=offer,
            extra=sections,
            port=self._port,
            password=PASSWORD,
            admin_users=(ADMIN,),
            admin_password=self.admin_password,
        )
        self.hub = Hub(cluster, settings)
        self._started.callback(self._stop_hub, self.hub)
        self.hub.start()
        return self.hub.url

    def failure(self) -> str:
        """Say what has ended by itself, empty while all runs."""
        return self.hub.failure() if self.hub else ""

    def stop(self) -> None:
        """Stop everything that was started, the last first."""
        self._started.close()

    def _stop_hub(self, hub: Hub) -> None:
        running = [user for user in _users(hub) if user.get("server") or user.get("pending")]
        self._report(f"stopping JupyterHub and {len(running)} server{'' if len(running) == 1 else 's'}")
        hub.stop()

    def _stop_cluster(self) -> None:
        self._report("stopping Kubernetes")
        Cluster.remove(self._name)


def make_admin_password() -> str:
    """Return a new password for the admin, as long as JupyterHub demands; no two demos have the same."""
    return secrets.token_urlsafe(24)


def refuse_taken_port(port: int) -> None:
    """Raise DevclusterError if something listens on a port of this machine."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise DevclusterError(
            f"port {port} is taken, perhaps by a demo that runs already; end that, or choose another: --port 8001"
        ) from error


def _users(hub: Hub) -> list[dict[str, object]]:
    try:
        return hub.client.users()
    except OSError:  # the hub has ended already
        return []
