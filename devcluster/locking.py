"""One `up` or `down` of a cluster at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from devcluster.run_dir import RunDir


@contextlib.contextmanager
def locked(run_dir: RunDir) -> Iterator[None]:
    """Hold the cluster's lock; the lock file goes when the cluster's folder has gone, and so does the state folder."""
    fd = _acquire(run_dir)
    try:
        yield
    finally:
        if not run_dir.path.exists():
            run_dir.lock_file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # other clusters are in it
                run_dir.path.parent.rmdir()
        os.close(fd)


def _acquire(run_dir: RunDir) -> int:
    while True:
        run_dir.lock_file.parent.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(run_dir.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # the last cluster's `down` removed the folder in between
        fcntl.flock(fd, fcntl.LOCK_EX)
        # The previous holder may have removed the file while this one waited: a lock on a removed file is worthless.
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(fd).st_ino == run_dir.lock_file.stat().st_ino:
                return fd
        os.close(fd)
