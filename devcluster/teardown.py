"""Taking a cluster away, whatever state it is in: running, half started, or killed in the middle.

No record of what was started is trusted alone: processes are found by their pid files, by the mark in their environment
and by their cgroup; the bridge and the cgroups by their names. All of it can be done twice.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from devcluster import cgroups, namespaces, network
from devcluster.errors import DevclusterError
from devcluster.processes import PROC, Process, every_pid, poll
from devcluster.run_dir import RunDir
from devcluster.supervisor import MARK

_PATIENCE_S = 30.0


def remove(run_dir: RunDir) -> None:
    """End every process of the cluster and remove its bridge, cgroups and folder.

    Raises DevclusterError where something is still in use after some seconds.
    """
    _kill_all(run_dir)
    network.remove(run_dir)
    cgroups.remove(run_dir)
    _unmount(run_dir)
    if run_dir.path.exists():
        run_dir.remove()


def remains(run_dir: RunDir) -> bool:
    """Say whether anything of a cluster exists on this machine."""
    return run_dir.path.exists() or network.exists(run_dir)


def processes(run_dir: RunDir) -> Iterator[Process]:
    """Yield every living process of the cluster."""
    mark = f"{MARK}={run_dir.path}".encode()
    contained = cgroups.processes(run_dir)
    for pid in every_pid():
        if pid != os.getpid() and (pid in contained or _marked(pid, mark)) and (process := Process.of(pid)):
            yield process


def _marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # ended meanwhile
        return False


def _kill_all(run_dir: RunDir) -> None:
    # The supervisor first, which would start again what is killed; the rest goes with it.
    for name in ("supervisor", "init"):
        if process := Process.load(run_dir.pids / name):
            process.kill()
            process.wait(_PATIENCE_S)

    def gone() -> bool:
        left = list(processes(run_dir))
        for process in left:
            process.kill()
        return not left

    if not poll(gone, timeout_s=_PATIENCE_S):
        pids = ", ".join(str(process.pid) for process in processes(run_dir))
        raise DevclusterError(f"processes of cluster {run_dir.name} do not end: {pids}")


def _mounts_below(folder: Path) -> list[Path]:
    # The fifth field is the mount point, with octal escapes for white space.
    points = [line.split()[4] for line in (PROC / "self/mountinfo").read_text().splitlines()]
    paths = [Path(point.encode().decode("unicode_escape")) for point in points]
    return sorted((path for path in paths if path.is_relative_to(folder)), key=lambda path: -len(path.parts))


def _unmount(run_dir: RunDir) -> None:
    """Unmount what lies below the folder, so that removing it never reaches into a mounted file system."""
    for path in _mounts_below(run_dir.path):
        with contextlib.suppress(OSError):
            namespaces.unmount(path)
    if left := _mounts_below(run_dir.path):
        raise DevclusterError(f"cannot unmount {left[0]}; {run_dir.path} is left as it is")
