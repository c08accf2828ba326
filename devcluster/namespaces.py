"""The node's own mount and pid namespaces, through the C library (Python has unshare() only from 3.12 on).

A kubelet and a container runtime keep state in fixed places: /var/lib/kubelet/device-plugins, /var/lib/cni,
/var/log/containers, /run/containerd. In a mount namespace of its own each node has these places to itself, the host's
folders stay untouched, and every mount vanishes with the node's last process. The pid namespace does the same for
processes: when its first one dies, the kernel kills all others, containers included.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Mapping
from pathlib import Path

_NEWNS = 0x00020000
_NEWPID = 0x20000000
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_MS_NOEXEC = 0x8
_MS_BIND = 0x1000
_MS_MOVE = 0x2000
_MS_REC = 0x4000
_MS_SLAVE = 0x80000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: Path | str, target: Path | str, *, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system as the system call of that name does."""
    result = _libc.mount(
        str(source).encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"cannot mount {source} on {target}")


def enter_new() -> None:
    """Give this process a new mount namespace, and its children a new pid namespace.

    Mounts made here stay here; what the host mounts or unmounts later still shows, so that nothing of the host's is
    kept busy. The next child becomes the first process of the pid namespace. This process can start no thread any more.
    """
    _check(_libc.unshare(_NEWNS | _NEWPID), "cannot create namespaces")
    mount("none", "/", flags=_MS_REC | _MS_SLAVE)


def die_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "cannot follow the parent process")


def mount_proc() -> None:
    """Show the caller's pid namespace in /proc."""
    mount("proc", "/proc", kind="proc", flags=_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def bind(source: Path, target: Path) -> None:
    """Show `source` at `target` too, which has to exist."""
    mount(source, target, flags=_MS_BIND)


def overlay_folder(folder: Path, own: Mapping[str, Path | None], *, scratch: Path) -> None:
    """Show the host's folder with some entries of its own, without writing to the host's folder.

    A tmpfs replaces it in which each entry of the host's is bound or linked; `own` maps the name of an entry of its own
    to the folder behind it, or to None for an empty one in memory. `scratch` is an empty folder to build it in. An
    overlay file system would do the same, but not where the folder is on one already, as in most containers.
    """
    mount("tmpfs", scratch, kind="tmpfs", flags=_MS_NOSUID, data="mode=755")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in own:
                with contextlib.suppress(FileNotFoundError):  # gone since the folder was read
                    _mirror(entry, scratch / entry.name)
    for name, source in own.items():
        (scratch / name).mkdir()
        if source is not None:
            bind(source, scratch / name)
    mount(scratch, folder, flags=_MS_MOVE)


def _mirror(entry: os.DirEntry[str], target: Path) -> None:
    if entry.is_symlink():
        target.symlink_to(Path(entry.path).readlink())
        return
    if entry.is_dir():
        target.mkdir()
    elif stat.S_ISREG(entry.stat().st_mode) or stat.S_ISSOCK(entry.stat().st_mode):
        target.touch()
    else:
        return
    mount(entry.path, target, flags=_MS_BIND | _MS_REC)


def unmount(target: Path) -> None:
    """Unmount a file system at once; a process that uses it keeps it until the process ends."""
    _check(_libc.umount2(str(target).encode(), _MNT_DETACH), f"cannot unmount {target}")
