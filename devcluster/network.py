"""The pods' bridge on the host: claiming a free subnet, making it, taking it away.

The bridge exists before the first pod, because API server, kubelet and hub listen on its address. Nothing is forwarded
or masqueraded and no iptables rule is needed: host and pods are neighbours on one link, and that is all they need.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devcluster.errors import DevclusterError
from devcluster.ports import first_free_port
from devcluster.run_dir import Addresses, RunDir

_LINKS = Path("/sys/class/net")


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise DevclusterError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def links(*arguments: str) -> list[dict[str, Any]]:
    """Return what `ip address show` says of the network interfaces it selects."""
    found: list[dict[str, Any]] = json.loads(_ip("-json", "address", "show", *arguments) or "[]")
    return [link for link in found if link]


def _numbers() -> dict[int, str]:
    """Return who has which of our subnets: the third byte of the address → the interface's name."""
    taken = {}
    for link in links():
        for address in link.get("addr_info", ()):
            parts = str(address.get("local", "")).split(".")
            if parts[:2] == ["198", "18"]:
                taken[int(parts[2])] = str(link["ifname"])
    return taken


@contextlib.contextmanager
def _claiming() -> Iterator[None]:
    """Let one process on the machine choose a subnet at a time, whatever state folder it uses."""
    folder = os.open(_LINKS, os.O_RDONLY | os.O_DIRECTORY)  # locking what exists leaves no lock file behind
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def claim(run_dir: RunDir) -> Addresses:
    """Make the cluster's bridge on a free subnet, or find it, and return the addresses with free ports.

    Raises DevclusterError where all 254 subnets are taken or the kernel refuses a bridge.
    """
    with _claiming():
        taken = _numbers()
        number = next((n for n, name in taken.items() if name == run_dir.bridge), 0)
        if not number:
            number = next((n for n in range(1, 255) if n not in taken), 0)
            if not number:
                raise DevclusterError(
                    "no subnet is free: 198.18.1.0/24 to 198.18.254.0/24 are all on this machine's links"
                )
            # A fixed hardware address: the bridge would else take its first port's, and pods remember the old one.
            hardware = ":".join(["02", *(run_dir.digest[i : i + 2] for i in range(0, 8, 2)), f"{number:02x}"])
            if not exists(run_dir):
                _ip("link", "add", "name", run_dir.bridge, "address", hardware, "type", "bridge")
            _ip("address", "add", f"198.18.{number}.1/24", "dev", run_dir.bridge)
        _ip("link", "set", run_dir.bridge, "up")
    addresses = Addresses(number=number)
    return Addresses(
        number=number,
        api_port=first_free_port(addresses.gateway, 6443),
        etcd_port=first_free_port(addresses.loopback, 2379),
        etcd_peer_port=first_free_port(addresses.loopback, 12380),
        kubelet_port=first_free_port(addresses.gateway, 10250),
    )


def exists(run_dir: RunDir) -> bool:
    """Say whether the cluster's bridge is there."""
    return (_LINKS / run_dir.bridge).exists()


def remove(run_dir: RunDir) -> None:
    """Remove the bridge and the host's ends of the pods' links on it."""
    if not exists(run_dir):
        return
    for link in links("master", run_dir.bridge):
        # The other end may take it along at any time: its network namespace is going away too.
        with contextlib.suppress(DevclusterError):
            _ip("link", "delete", str(link["ifname"]))
    _ip("link", "delete", run_dir.bridge)
