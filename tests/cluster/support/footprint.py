"""A cluster's traces on the machine, found without asking devcluster: names, paths, namespaces and cgroups."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devcluster.run_dir import RunDir

PROC = Path("/proc")
# Folders in which a kubelet and a container runtime leave something unless they get folders of their own.
SHARED_FOLDERS = ("/var/lib", "/var/log", "/run", "/run/lock", "/opt", "/etc/cni", "/run/netns")
SETTINGS = ("net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")


@dataclass(frozen=True, slots=True)
class Machine:
    """Settings that no cluster may change for good."""

    entries: frozenset[str]
    settings: tuple[str, ...]
    firewall: str

    @classmethod
    def now(cls) -> Machine:
        folders = [Path(folder) for folder in SHARED_FOLDERS if Path(folder).is_dir()]
        return cls(
            frozenset(str(entry) for folder in folders for entry in folder.iterdir()),
            tuple((PROC / "sys" / name).read_text() for name in SETTINGS),
            # Without the comments, which hold the time, and the counters.
            "\n".join(line for line in _output("iptables-save").splitlines() if line[:1] not in "#:"),
        )


@dataclass(frozen=True, slots=True)
class Footprint:
    """The traces of one cluster at one moment; all empty once it is gone."""

    processes: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    links: frozenset[str]
    files: frozenset[str]

    @classmethod
    def of(cls, run_dir: RunDir) -> Footprint:
        processes, mounts = _processes_and_mounts(run_dir)
        # os.walk goes on where a cgroup is removed in the meantime; Path.rglob raises FileNotFoundError.
        folders = ((Path(folder), names) for folder, names, _ in os.walk("/sys/fs/cgroup"))
        cgroups = frozenset(str(folder / name) for folder, names in folders for name in names if run_dir.digest in name)
        files = frozenset(str(path) for path in (run_dir.path, run_dir.lock_file) if path.exists())
        return cls(processes, mounts, cgroups, _links(run_dir), files)


NOTHING = Footprint(frozenset(), frozenset(), frozenset(), frozenset(), frozenset())


def links_on(run_dir: RunDir) -> frozenset[str]:
    """Return the names of the host's ends of the pods' links."""
    shown = json.loads(_output("ip", "-json", "link", "show", "master", run_dir.bridge) or "[]")
    return frozenset(link["ifname"] for link in shown if link)


def all_links() -> frozenset[str]:
    return frozenset(path.name for path in Path("/sys/class/net").iterdir())


def _links(run_dir: RunDir) -> frozenset[str]:
    return frozenset(name for name in all_links() if run_dir.digest in name)


def _processes_and_mounts(run_dir: RunDir) -> tuple[frozenset[str], frozenset[str]]:
    processes, mounts = set(), set()
    for folder in PROC.iterdir():
        if not folder.name.isdigit() or folder.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):  # ended meanwhile
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (folder / "environ").read_bytes().decode(errors="replace")
            # The tests' own processes know the folder of all clusters; only a cluster's know the path of one.
            if str(run_dir.path) in command + environment or run_dir.digest in (folder / "cgroup").read_text():
                processes.add(f"{folder.name} {command}")
            mountinfo = (folder / "mountinfo").read_text()
            mounts.update(line for line in mountinfo.splitlines() if str(run_dir.path) in line)
    return frozenset(processes), frozenset(mounts)


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""
