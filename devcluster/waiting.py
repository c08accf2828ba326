"""Waiting for parts of a cluster, with an error that says why one did not come."""

from __future__ import annotations

import time
from collections.abc import Callable

from devcluster.api import ApiError
from devcluster.errors import DevclusterError
from devcluster.processes import Process, poll
from devcluster.run_dir import RunDir

_TAIL_BYTES = 4096


class Waiting:
    """Waits for one part of a starting cluster after the other, `timeout_s` seconds for all of them together."""

    def __init__(self, run_dir: RunDir, timeout_s: float) -> None:
        self._run_dir = run_dir
        self._deadline = time.monotonic() + timeout_s
        self._supervisor = Process.load(run_dir.pids / "supervisor")

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; an API server that does not answer or refuses means not yet.

        Raises DevclusterError when the time is up, or at once where the supervisor has ended.
        """

        def settled() -> bool:
            if self._supervisor is None or not self._supervisor.alive():
                reason = last_words(self._run_dir)
                raise DevclusterError(f"cluster {self._run_dir.name} ended while waiting for {what}: {reason}")
            try:
                return condition()
            except (OSError, ApiError):
                return False

        if not poll(settled, timeout_s=max(0.0, self._deadline - time.monotonic())):
            logs = self._run_dir.logs
            raise DevclusterError(f"{what} did not come up in time ({last_words(self._run_dir)}); logs are in {logs}")


def last_words(run_dir: RunDir) -> str:
    """Return the last line of the supervisor's log, which names the program that ended last."""
    try:
        with (run_dir.logs / "supervisor.log").open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "nothing in the supervisor's log"
