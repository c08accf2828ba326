"""The cgroup below which all pods of one cluster run, in each hierarchy of version 1 or in the one of version 2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.processes import poll
from devcluster.run_dir import RunDir

_ROOT = Path("/sys/fs/cgroup")
_NEEDED = ("cpu", "cpuset", "memory", "pids")
"""The controllers the kubelet cannot do without (pkg/kubelet/cm/container_manager_linux.go)."""
_USED = (*_NEEDED, "hugetlb")
"""Those that the cluster's cgroup of version 2 must have where the root has them (cgroup_v2_manager_linux.go)."""


def unified(root: Path = _ROOT) -> bool:
    """Say whether the machine uses cgroup version 2 only."""
    return (root / "cgroup.controllers").exists()


def _hierarchies(root: Path) -> Iterator[Path]:
    if unified(root):
        yield root
        return
    for folder in sorted(root.iterdir()):
        # cpu,cpuacct is one hierarchy with links called cpu and cpuacct beside it.
        if folder.is_dir() and not folder.is_symlink() and (folder / "cgroup.procs").exists():
            yield folder


def create(run_dir: RunDir, root: Path = _ROOT) -> None:
    """Create the cluster's cgroup in every hierarchy; the kubelet wants to find it there.

    Raises DevclusterError where a controller that the kubelet needs is missing.
    """
    if unified(root):
        _delegate(root)
    elif missing := [name for name in _NEEDED if not (root / name).exists()]:
        raise DevclusterError(f"cgroup controllers are not mounted below {root}: {', '.join(missing)}")
    for hierarchy in _hierarchies(root):
        folder = hierarchy / run_dir.cgroup
        folder.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset" and not unified(root):
            for knob in ("cpuset.cpus", "cpuset.mems"):  # version 1 starts with none, and then no process may enter
                (folder / knob).write_text((hierarchy / knob).read_text())


def _delegate(root: Path) -> None:
    offered = set((root / "cgroup.controllers").read_text().split())
    if missing := set(_NEEDED) - offered:
        raise DevclusterError(f"the kernel offers no cgroup controllers {', '.join(sorted(missing))} in {root}")
    control = root / "cgroup.subtree_control"
    if lacking := offered.intersection(_USED) - set(control.read_text().split()):
        try:
            control.write_text(" ".join(f"+{name}" for name in sorted(lacking)))
        except OSError as error:
            raise DevclusterError(
                f"cannot hand down cgroup controllers {', '.join(sorted(lacking))} in {root} ({error.strerror}): "
                "in a container, move its processes out of the container's own root cgroup first"
            ) from error


def processes(run_dir: RunDir, root: Path = _ROOT) -> set[int]:
    """Return the pids of all processes in the cluster's cgroup."""
    pids: set[int] = set()
    for hierarchy in _hierarchies(root):
        for file in (hierarchy / run_dir.cgroup).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids.update(int(line) for line in file.read_text().split())
    return pids


def remove(run_dir: RunDir, root: Path = _ROOT) -> None:
    """Remove the cluster's cgroup, whose processes have ended, from every hierarchy.

    Raises DevclusterError where the kernel still holds one after five seconds.
    """
    for hierarchy in _hierarchies(root):
        folder = hierarchy / run_dir.cgroup
        if not poll(lambda folder=folder: _gone(folder), timeout_s=5):  # type: ignore[misc]
            raise DevclusterError(f"cannot remove cgroup {folder}: it is still in use")


def _gone(folder: Path) -> bool:
    """Remove a cgroup from the leaves up; a dead process leaves its cgroup a moment after it is gone elsewhere."""
    if not folder.exists():
        return True
    below = sorted((path for path in folder.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    with contextlib.suppress(OSError):
        for path in (*below, folder):
            path.rmdir()
    return not folder.exists()
