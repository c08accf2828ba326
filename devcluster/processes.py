"""Processes by identity: a pid alone may by now belong to another process.

A pid file holds the pid, the start time (field 22 of /proc/PID/stat) and the boot id, which together never recur.
Signals go through a pidfd that is checked after it was opened, so a process that ends in between is not mistaken for
another.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


def boot_id() -> str:
    """Return the kernel's identifier of the current boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int, *, proc_fd: int | None = None) -> int | None:
    """Return a process's start time in clock ticks since boot, or None where it has ended (a zombie has).

    `proc_fd` is an open /proc of the caller's own pid namespace, for a caller that sees another one mounted.
    """
    try:
        fd = (
            os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=proc_fd)
            if proc_fd is not None
            else os.open(PROC / str(pid) / "stat", os.O_RDONLY)
        )
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        # The second field is the program's name in brackets, which may itself hold brackets and spaces.
        fields = os.read(fd, 4096).decode(errors="replace").rpartition(")")[2].split()
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True, slots=True)
class Process:
    """One process, for as long as the machine runs."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int, *, proc_fd: int | None = None) -> Process | None:
        """Return the process that has this pid now, or None where there is none."""
        started = start_time(pid, proc_fd=proc_fd)
        return None if started is None else cls(pid, started, boot_id())

    @classmethod
    def load(cls, path: Path) -> Process | None:
        """Return the process that a pid file names, or None where the file is missing or broken."""
        try:
            pid, started, boot = path.read_text().split()
            return cls(int(pid), int(started), boot)
        except (OSError, ValueError):
            return None

    def save(self, path: Path) -> None:
        """Write a pid file."""
        part = path.with_name(f".{path.name}.part")
        part.write_text(f"{self.pid} {self.started} {self.boot}\n")
        part.replace(path)

    def alive(self) -> bool:
        """Say whether this very process still runs."""
        return self.boot == boot_id() and start_time(self.pid) == self.started

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal to this very process; False where it has ended."""
        with contextlib.suppress(ProcessLookupError), self._pidfd() as pidfd:
            if self.alive():
                signal.pidfd_send_signal(pidfd, number)
                return True
        return False

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False where it has not in time."""
        try:
            with self._pidfd() as pidfd:
                # A pidfd turns readable when its process becomes a zombie.
                return not self.alive() or bool(select.select([pidfd], [], [], timeout_s)[0])
        except ProcessLookupError:
            return True

    @contextlib.contextmanager
    def _pidfd(self) -> Iterator[int]:
        pidfd = os.pidfd_open(self.pid)
        try:
            yield pidfd
        finally:
            os.close(pidfd)


def every_pid() -> Iterator[int]:
    """Yield the pids of all processes."""
    with os.scandir(PROC) as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def poll(condition: Callable[[], bool], *, timeout_s: float, interval_s: float = 0.05) -> bool:
    """Wait until the condition holds; False where it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True
