"""A local Kubernetes as one object: up, what to connect with, down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from devcluster import build, images, kubeconfig, notebook, prerequisites, simulated, startup, teardown
from devcluster.api import Api
from devcluster.components import REAL_NODE
from devcluster.errors import DevclusterError
from devcluster.locking import locked
from devcluster.run_dir import Addresses, RunDir, state_dir

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Report = Callable[[str], object]

_TOKEN_LIFETIME_S = 7 * 24 * 3600


def _silent(_text: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster; `Cluster.up` returns one."""

    run_dir: Path
    """The folder with everything the cluster writes."""

    real_node: ClassVar[str] = REAL_NODE
    """The name of the node that runs pods."""
    pause_image: ClassVar[str] = images.PAUSE_IMAGE
    """An image on that node that does nothing; needs `imagePullPolicy: Never`."""
    notebook_image: ClassVar[str] = images.NOTEBOOK_IMAGE
    """The image of notebooks on that node; needs `imagePullPolicy: Never` and `notebook_volumes()`."""

    @classmethod
    def up(
        cls,
        name: str = "default",
        simulated_nodes: Path | str | None = None,
        *,
        timeout_s: float = 120.0,
        report: Report = _silent,
    ) -> Cluster:
        """Return the running cluster of that name, having started, repaired or completed it where that was needed.

        When it returns, the real node is Ready with all its GPUs, and with `simulated_nodes` (a fleet file) so are the
        simulated ones. `timeout_s` is for the start, not for building programs. Raises DevclusterError in one line that
        says what is missing or what did not start.
        """
        run_dir = RunDir.named(name)
        pools = None if simulated_nodes is None else simulated.load(Path(simulated_nodes))
        programs = prerequisites.check()
        binaries = build.ensure(report=report)
        with locked(run_dir):
            if not startup.running(run_dir):
                if teardown.remains(run_dir):
                    report(f"removing what is left of cluster {name}")
                    teardown.remove(run_dir)
                report(f"starting cluster {name}")
                startup.start(run_dir, programs, binaries=binaries)
            startup.complete(run_dir, pools, busybox=programs.busybox, timeout_s=timeout_s)
        return cls(run_dir.path)

    @classmethod
    def find(cls, name: str = "default") -> Cluster | None:
        """Return the cluster of that name if it runs."""
        run_dir = RunDir.named(name)
        return cls(run_dir.path) if startup.running(run_dir) else None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all clusters that have left something on this machine, running or not."""
        folder = state_dir()
        return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir())) if folder.exists() else ()

    @classmethod
    def remove(cls, name: str = "default") -> bool:
        """Stop the cluster of that name and leave nothing of it; False where there was nothing.

        Works whatever state the cluster is in. Raises DevclusterError where something does not go away.
        """
        return _remove(RunDir.named(name))

    def down(self) -> None:
        """Stop the cluster and leave no process, mount, cgroup, network interface or file of it."""
        _remove(self._folder)

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.run_dir.name

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self._folder.kubeconfig

    @property
    def server(self) -> str:
        """Return the API server's URL, good on this machine and in pods."""
        return self._addresses.server

    @property
    def ca_file(self) -> Path:
        """Return the certificate that verifies the API server."""
        return self._folder.ca_file

    @property
    def audit_log(self) -> Path:
        """Return the API server's record of what ServiceAccounts asked for, one audit Event in JSON a line."""
        return self._folder.audit_log

    @property
    def gateway(self) -> str:
        """Return this machine's address on the pods' bridge: pods can reach servers that listen there."""
        return self._addresses.gateway

    def api_client(self) -> ApiClient:
        """Return an official client with the administrator's rights; closing it is the caller's."""
        from kubernetes import config  # noqa: PLC0415  # takes a second to import, and `up` does without

        client: ApiClient = config.new_client_from_config(config_file=str(self.kubeconfig))  # type: ignore[no-untyped-call]
        return client

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig with a token of that ServiceAccount, good for a week.

        Namespace and ServiceAccount are created where they are missing; rights it has only those bound to it.
        """
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        with Api(self._folder, self._addresses) as api:
            api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            api.create(accounts, {"metadata": {"name": name}})
            request = api.create(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": _TOKEN_LIFETIME_S}})
        if request is None:
            raise DevclusterError(f"the API server gave no token for {namespace}/{name}")
        token = str(request["status"]["token"])
        return kubeconfig.for_token(self._folder, self._addresses, user=f"{namespace}-{name}", token=token)

    def notebook_volumes(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the volumes and volume mounts that a pod of the notebook image needs to run this Python."""
        return notebook.volumes()

    @property
    def _folder(self) -> RunDir:
        return RunDir(self.run_dir)

    @property
    def _addresses(self) -> Addresses:
        addresses = self._folder.load()
        if addresses is None:
            raise DevclusterError(f"cluster {self.name} does not run")
        return addresses


def _remove(run_dir: RunDir) -> bool:
    prerequisites.check(binaries=False)
    with locked(run_dir):
        found = teardown.remains(run_dir)
        teardown.remove(run_dir)
    return found
