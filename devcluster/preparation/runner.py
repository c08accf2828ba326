"""Run chains of steps side by side; the first failure, and Ctrl-C, end all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.preparation.progress import Progress, clock, for_standard_error

LOG_TAIL_LINES = 25
# apt-get may be in the middle of unpacking when it is asked to end.
END_TIMEOUT_S = 20.0
# A Ctrl-C that comes just as Python begins to wait for a lock is noticed only once that wait is over.
CTRL_C_S = 0.5

# Settings that would make pip, uv, npm or go work on something other than this checkout. Where registries are and how
# to reach them (indexes, proxies, certificates) stays as the user has it.
MISLEADING_VARIABLES = frozenset(
    {
        "CONDA_PREFIX",
        "GOBIN",
        "GOFLAGS",
        "NODE_ENV",
        "PIP_PREFIX",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_TARGET",
        "PIP_USER",
        "PYTHONHOME",
        "PYTHONPATH",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "VIRTUAL_ENV",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that has to be there.

    :param what: the usual name of its result.
    :param is_done: whether it is there already.
    :param commands: the commands for it, run one after the other; asked for only when it is not there.
    :param finish: called when all commands succeeded.
    """

    name: str
    what: str
    is_done: Callable[[], bool]
    commands: Callable[[], Sequence[Sequence[str]]]
    finish: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)


class StepFailedError(Exception):
    """A command of a step failed.

    :param log: where all of its output is.
    """

    def __init__(self, step: Step, command: Sequence[str], *, status: int, log: Path) -> None:
        super().__init__(f"{step.name}: `{' '.join(command)}` ended with status {status}")
        self.log = log

    def tail(self) -> str:
        """Give the last lines of the output."""
        lines = deque(self.log.read_text(errors="replace").splitlines(), maxlen=LOG_TAIL_LINES)
        return "\n".join(f"    {line}" for line in lines)


class Runner:
    """Runs steps in ``root``, keeps their output in ``log_dir`` and reports progress."""

    def __init__(self, root: Path, log_dir: Path) -> None:
        self._root = root
        self._log_dir = log_dir
        self._lock = threading.Lock()
        self._latest: dict[str, str] = {}
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopping = False
        self.progress: Progress = for_standard_error(self._running)

    def run(self, chains: Sequence[Sequence[Step]]) -> None:
        """Run every chain in a thread of its own, the steps of a chain in order.

        :raises StepFailedError: the first failure; the other chains have been ended by then.
        :raises KeyboardInterrupt: everything has been ended by then.
        """
        self._log_dir.mkdir(parents=True, exist_ok=True)
        self.progress.start()
        with ThreadPoolExecutor(max_workers=max(1, len(chains))) as pool:
            try:
                pending = {pool.submit(self._run_chain, chain) for chain in chains}
                while pending:
                    done, pending = wait(pending, timeout=CTRL_C_S, return_when=FIRST_EXCEPTION)
                    _raise_first(done)
            finally:
                self._stop()
                self.progress.stop()

    def _run_chain(self, chain: Sequence[Step]) -> None:
        for step in chain:
            began = self.progress.elapsed_s
            log = self._log_dir / f"{step.name.replace(' ', '-')}.log"
            log.unlink(missing_ok=True)
            for command in step.commands():
                self._run_command(step, command, log=log)
            step.finish()
            with self._lock:
                self._latest.pop(step.name, None)
            self.progress.line(f"  {clock(self.progress.elapsed_s - began):>6}  {step.name}: {step.what}")

    def _run_command(self, step: Step, command: Sequence[str], *, log: Path) -> None:
        with self._start(step, command) as process, log.open("a") as file:
            for line in process.stdout or ():
                file.write(line)
                file.flush()
                if line.strip():
                    with self._lock:
                        self._latest[step.name] = line.strip()
        with self._lock:
            self._processes.discard(process)
        status = process.returncode
        if status != 0:
            raise StepFailedError(step, command, status=status, log=log)

    def _start(self, step: Step, command: Sequence[str]) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if name not in MISLEADING_VARIABLES}
        with self._lock:
            if self._stopping:
                raise KeyboardInterrupt
            self._latest[step.name] = step.what
            # A process group of its own: Ctrl-C reaches this program alone, which then ends the whole group.
            process = subprocess.Popen(
                command,
                cwd=self._root,
                env=environment | step.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._processes.add(process)
        return process

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            processes = list(self._processes)
        for process in processes:
            _signal_group(process, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)

    def _running(self) -> Mapping[str, str]:
        with self._lock:
            return dict(self._latest)


def _raise_first(futures: set[Future[None]]) -> None:
    for future in futures:
        future.result()


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)
