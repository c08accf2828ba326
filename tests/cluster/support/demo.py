"""Runs the demo's command as a person would, in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.hub import CHECKOUT
from tests.cluster.support.waiting import wait_for

STOP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that was started.

    :param lines: what it has printed so far, to either stream.
    """

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def printed(self) -> str:
        return "".join(self.lines)

    def wait_ready(self, *, timeout_s: float) -> None:
        def look() -> bool:
            assert self.process.poll() is None, self.printed
            return "Ctrl-C: it stops" in self.printed

        wait_for(look, "the demo's instructions", timeout_s=timeout_s)

    def stop(self, number: signal.Signals) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(STOP_TIMEOUT_S)


@contextmanager
def demo(*arguments: str, kubeconfig: Path | None = None) -> Iterator[Demo]:
    """Start the demo; it is stopped in the end, if it still runs."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)} if kubeconfig else dict(os.environ)
    process = subprocess.Popen(
        [sys.executable, "-m", "devcluster.demo", *arguments],
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    started = Demo(process)
    reader = threading.Thread(target=_read, args=(process, started.lines))
    reader.start()
    try:
        yield started
    finally:
        if process.poll() is None:
            started.stop(signal.SIGTERM)
        reader.join()
        if process.stdout:
            process.stdout.close()


def refusal(*arguments: str, kubeconfig: Path | None = None) -> tuple[int, Sequence[str]]:
    """Run a demo that refuses to start and return its exit status and its lines."""
    with demo(*arguments, kubeconfig=kubeconfig) as started:
        status = started.process.wait(STOP_TIMEOUT_S)
    return status, started.printed.splitlines()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
    lines.extend(process.stdout or ())  # each line as it comes
