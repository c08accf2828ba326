"""Starts subjects and asks them, from the process that has the control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

from bench.control_plane import ControlPlane
from devcluster.errors import DevclusterError

Answer = dict[str, float]


class SubjectError(DevclusterError):
    """A subject took too long, or wanted too much memory, or broke."""


class Subject:
    """A running subject, see :mod:`bench.scale.subject`; ends when this is closed."""

    def __init__(self, name: str, plane: ControlPlane) -> None:
        self._name = name
        # The kernel ends it should this process end first.
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "bench.scale.subject", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig())},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nothing that it holds is needed any more.
        self._process.kill()
        self._process.communicate()

    def ask(self, command: str, number: int = 0, *, timeout_s: float) -> Answer:
        """Return the answer to a command.

        :raises SubjectError: there is none in time, or none at all.
        """
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        watchdog = threading.Timer(timeout_s, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{command} {number}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            watchdog.cancel()
        if not line:
            raise SubjectError(f"{self._name} did not answer to {command} within {timeout_s:.0f} s, or ended")
        answer: Answer = json.loads(line)
        return answer
