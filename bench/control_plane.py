"""etcd, an API server and, if wanted, kube-scheduler, and nothing else, so no controller changes the test's objects.

No controller manager taints nodes or binds volumes, no kubelet starts pods, so a scene stays as it was drawn. The
scheduler runs with the plugins and settings it has by default.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.api import Api
from devcluster import build
from devcluster.certificates import Authority
from devcluster.components import flags
from devcluster.errors import DevclusterError
from devcluster.ports import free_ports
from devcluster.processes import poll

HOST = "127.0.0.1"
START_TIMEOUT_S = 120
_FEATURE_GATES = "TaintTolerationComparisonOperators=true"
"""Alpha in Kubernetes 1.36: tolerations with Gt and Lt."""
SCHEDULER_USER = "system:kube-scheduler"
# Those write on their own what a scene should not hold: a taint on every new node that no kubelet vouches for,
# finalizers that only the controller manager takes away, ServiceAccounts that only it makes.
SWITCHED_OFF = "TaintNodesByCondition,StorageObjectInUseProtection,ServiceAccount"
ETCD_QUOTA_BYTES = 8 * 1024**3
"""The largest size etcd advises; by default it takes no more writes after 2 GiB, less than a large cluster needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running control plane; ``control_plane()`` starts one."""

    folder: Path
    port: int

    def connect(self) -> Api:
        """Return a connection with all rights; closing it is the caller's."""
        return Api((HOST, self.port), folder=self.folder)

    def kubeconfig(self) -> Path:
        """Return a file with which other programs connect with all rights; it goes with the control plane."""
        return _kubeconfig(self.folder, self.port, user="admin")

    def log_tail(self) -> str:
        """Return the ends of the programs' logs."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"-- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)


@contextlib.contextmanager
def control_plane(*, scheduler: bool = True) -> Iterator[ControlPlane]:
    """Start a control plane of its own and remove every trace of it at the end.

    Raises DevclusterError where it does not come up in time.

    :param scheduler: whether a scheduler binds the pods that have no node yet.
    """
    binaries = build.ensure(report=print)
    with contextlib.ExitStack() as started:
        folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="gpuspawner-bench-")))
        etcd_port, peer_port, port = free_ports((HOST,) * 3)
        authority = Authority.create(folder)
        authority.issue("apiserver", "kube-apiserver", group="system:masters", addresses=(HOST,))
        authority.issue("admin", "admin", group="system:masters")
        # Not bound by RBAC, because waiting for the default roles to appear would take longer than all else.
        authority.issue("scheduler", SCHEDULER_USER, group="system:masters")
        plane = ControlPlane(folder=folder, port=port)
        started.enter_context(
            _running(folder, "etcd", command=[str(binaries / "etcd"), *_etcd(folder, etcd_port, peer_port)])
        )
        command = [str(binaries / "kube-apiserver"), *_api_server(folder, etcd_port, port)]
        started.enter_context(_running(folder, "kube-apiserver", command=command))
        with plane.connect() as api:
            if not poll(api.ready, timeout_s=START_TIMEOUT_S):
                raise DevclusterError(f"the API server did not come up in time:\n{plane.log_tail()}")
        if scheduler:
            command = [str(binaries / "kube-scheduler"), *_scheduler(folder, port)]
            started.enter_context(_running(folder, "kube-scheduler", command=command))
        yield plane


@contextlib.contextmanager
def _running(folder: Path, name: str, *, command: list[str]) -> Iterator[None]:
    """Run a program, which the kernel ends should this one end first."""
    with (
        (folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        ) as process,
    ):
        try:
            yield
        finally:
            process.kill()  # nothing that it holds is needed any more


def _etcd(folder: Path, port: int, peer_port: int) -> tuple[str, ...]:
    client, peer = f"http://{HOST}:{port}", f"http://{HOST}:{peer_port}"
    return flags(
        data_dir=folder / "etcd",
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"default={peer}",
        unsafe_no_fsync="true",
        quota_backend_bytes=ETCD_QUOTA_BYTES,
        log_level="warn",
    )


def _api_server(folder: Path, etcd_port: int, port: int) -> tuple[str, ...]:
    return flags(
        etcd_servers=f"http://{HOST}:{etcd_port}",
        bind_address=HOST,
        advertise_address=HOST,
        secure_port=port,
        tls_cert_file=folder / "apiserver.crt",
        tls_private_key_file=folder / "apiserver.key",
        client_ca_file=folder / "ca.crt",
        authorization_mode="AlwaysAllow",
        feature_gates=_FEATURE_GATES,
        disable_admission_plugins=SWITCHED_OFF,
        service_account_issuer="https://kubernetes.default.svc",
        service_account_key_file=folder / "apiserver.key",
        service_account_signing_key_file=folder / "apiserver.key",
        service_cluster_ip_range="198.19.0.0/25",
        endpoint_reconciler_type="none",
        # All clients are ours; queues for fairness among them would only cost.
        enable_priority_and_fairness="false",
        profiling="false",
    )


def _scheduler(folder: Path, port: int) -> tuple[str, ...]:
    return flags(
        kubeconfig=_kubeconfig(folder, port, user="scheduler"),
        leader_elect="false",
        feature_gates=_FEATURE_GATES,
        secure_port=0,
        kube_api_qps=5000,
        kube_api_burst=10_000,
        profiling="false",
    )


def _kubeconfig(folder: Path, port: int, *, user: str) -> Path:
    """Write a kubeconfig for a user whose key pair is in the folder."""
    cluster = {"server": f"https://{HOST}:{port}", "certificate-authority": str(folder / "ca.crt")}
    keys = {"client-certificate": str(folder / f"{user}.crt"), "client-key": str(folder / f"{user}.key")}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": user}}],
        "current-context": "bench",
    }
    path = folder / f"{user}.kubeconfig"
    path.write_text(json.dumps(document))
    return path
