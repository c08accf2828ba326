"""Where a cluster keeps its state, and the names that follow from that place.

Everything a cluster writes lies below one folder. The names it needs outside of it (a bridge, a cgroup) carry a digest
of that folder's path, so that two clusters never claim the same name and `down` knows its own things without a record.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.errors import DevclusterError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def state_dir() -> Path:
    """Return the folder that holds one folder per cluster ($GPUSPAWNER_STATE_DIR)."""
    return Path(os.environ.get("GPUSPAWNER_STATE_DIR") or "/var/tmp/gpuspawner-devcluster").absolute()  # noqa: S108


def cache_dir() -> Path:
    """Return the folder for what outlives clusters: binaries and image archives ($GPUSPAWNER_CACHE_DIR)."""
    return Path(os.environ.get("GPUSPAWNER_CACHE_DIR") or Path.home() / ".cache" / "gpuspawner").absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of one cluster, all derived from one free number, and the ports chosen on them."""

    number: int
    """1 to 254: the third byte of every address below."""
    api_port: int = 0
    etcd_port: int = 0
    etcd_peer_port: int = 0
    kubelet_port: int = 0

    @property
    def gateway(self) -> str:
        """Return the host's address on the pods' bridge; API server and kubelet listen on it."""
        return f"198.18.{self.number}.1"

    @property
    def pod_subnet(self) -> str:
        """Return the range of pods that run; RFC 2544 reserves 198.18.0.0/15, so no network uses it."""
        return f"198.18.{self.number}.0/24"

    @property
    def service_subnet(self) -> str:
        """Return the range the API server takes Service addresses from; nothing routes them."""
        return f"198.19.{self.number}.0/25"

    @property
    def simulated_subnet(self) -> str:
        """Return the range KWOK gives pods on simulated nodes; nothing answers there."""
        return f"198.19.{self.number}.128/25"

    @property
    def loopback(self) -> str:
        """Return the loopback address of what only this machine may reach (etcd, KWOK)."""
        return f"127.18.{self.number}.1"

    @property
    def server(self) -> str:
        """Return the API server's URL, good on the host and in pods."""
        return f"https://{self.gateway}:{self.api_port}"


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one cluster and the paths in it."""

    path: Path

    @classmethod
    def named(cls, name: str) -> RunDir:
        """Return the folder of the cluster called `name`, whether it exists or not.

        Raises DevclusterError for a name that is no DNS label of at most 32 characters.
        """
        if not _NAME.fullmatch(name):
            raise DevclusterError(
                f"{name!r} is no cluster name: use at most 32 lower-case letters, digits and inner hyphens"
            )
        return cls(state_dir() / name)

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.path.name

    @property
    def digest(self) -> str:
        """Return eight hexadecimal digits that stand for this folder."""
        return hashlib.sha256(str(self.path).encode()).hexdigest()[:8]

    @property
    def bridge(self) -> str:
        """Return the name of the pods' bridge (the kernel takes at most 15 characters)."""
        return f"gsp{self.digest}"

    @property
    def cgroup(self) -> str:
        """Return the name of the cgroup, below each hierarchy's root, that holds all pods."""
        return f"gpuspawner-{self.digest}"

    @property
    def lock_file(self) -> Path:
        """Return the file that `up` and `down` lock; it lies beside the folder because `down` removes the folder."""
        return self.path.with_name(f".{self.name}.lock")

    @property
    def logs(self) -> Path:
        """Return the folder with one log per component."""
        return self.path / "logs"

    @property
    def audit_log(self) -> Path:
        """Return the API server's record of what ServiceAccounts asked for, one JSON object a line."""
        return self.logs / "audit.log"

    @property
    def pids(self) -> Path:
        """Return the folder with one pid file per component."""
        return self.path / "pids"

    @property
    def pki(self) -> Path:
        """Return the folder of keys and certificates."""
        return self.path / "pki"

    @property
    def etc(self) -> Path:
        """Return the folder of the components' configuration files."""
        return self.path / "etc"

    @property
    def node(self) -> Path:
        """Return the folder that stands behind /var/lib, /run and /var/log as the node's processes see them."""
        return self.path / "node"

    @property
    def devices(self) -> Path:
        """Return the folder of the stand-in GPUs' device files."""
        return self.path / "devices"

    @property
    def kubeconfigs(self) -> Path:
        """Return the folder of kubeconfig files."""
        return self.path / "kubeconfig"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.kubeconfigs / "admin"

    @property
    def ca_file(self) -> Path:
        """Return the certificate that clients verify the API server with."""
        return self.pki / "ca.crt"

    def create(self) -> None:
        """Create the folder and those in it, readable by their owner only."""
        for folder in (self.path, self.logs, self.pids, self.pki, self.etc, self.node, self.devices, self.kubeconfigs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove the folder; the caller has made sure that nothing is mounted below it."""
        shutil.rmtree(self.path, ignore_errors=False)

    def save(self, addresses: Addresses) -> None:
        """Record the cluster's addresses."""
        write(self.path / "addresses.json", json.dumps(asdict(addresses)))

    def load(self) -> Addresses | None:
        """Return the recorded addresses, or None before there are any."""
        try:
            return Addresses(**json.loads((self.path / "addresses.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None


def write(path: Path, text: str, *, mode: int = 0o600) -> Path:
    """Write a file so that a reader sees either all of it or nothing, and return its path."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.touch(mode=mode)
    part.write_text(text)
    part.replace(path)
    return path
