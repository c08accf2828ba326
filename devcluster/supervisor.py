"""Keeps one cluster's programs running: `python -m devcluster.supervisor FOLDER`.

The supervisor puts the programs into namespaces of their own (see devcluster.namespaces), starts again what ends, and
takes everything along when it ends itself, however it ends: the first process of the pid namespace dies with it, and
the kernel kills whatever else is in there. So `down` has to kill one process only, and nothing is left after a crash.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from devcluster import control_plane, namespaces, node, simulated
from devcluster.api import Api
from devcluster.components import Component, Plan
from devcluster.errors import DevclusterError
from devcluster.processes import PROC, Process
from devcluster.run_dir import RunDir, write
from devcluster.waiting import last_words

logger = logging.getLogger("devcluster.supervisor")

MARK = "GPUSPAWNER_DEVCLUSTER"
"""The environment variable, holding the run directory, that marks every process of a cluster."""

_POLL_S = 0.05
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 5.0
_STABLE_S = 10.0


@dataclass(slots=True)
class _Running:
    component: Component
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    due_s: float = 0.0
    delay_s: float = _FIRST_DELAY_S


@dataclass(slots=True)
class Supervisor:
    """Starts the components in their order and again when they end."""

    plan: Plan
    api: Api
    proc_fd: int
    """The host's /proc, which the namespaces hide."""
    init: Process
    running: list[_Running]
    api_answers: bool = False

    def run(self) -> None:
        """Work until the namespaces' first process has ended; there is no coming back from that."""
        for entry in self.running:  # an empty pid file: belongs here and does not run yet
            (self.plan.run_dir.pids / entry.component.name).touch()
        while self._reap():
            for entry in self.running:
                if entry.process is None and time.monotonic() >= entry.due_s and self._may_start(entry.component):
                    self._start(entry)
            time.sleep(_POLL_S)

    def _may_start(self, component: Component) -> bool:
        if component.needs_api and not self.api_answers:
            self.api_answers = self._asks_api()
        return not component.needs_api or self.api_answers

    def _asks_api(self) -> bool:
        """Say whether the API server answers at all; RBAC's default roles may still be on their way."""
        with contextlib.suppress(OSError, DevclusterError):
            return self.api.get("/api/v1/namespaces/kube-system") is not None
        return False

    def _start(self, entry: _Running) -> None:
        name = entry.component.name
        with (self.plan.run_dir.logs / f"{name}.log").open("ab") as log:
            entry.process = subprocess.Popen(
                entry.component.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.plan.run_dir.path,
                env={**os.environ, **entry.component.environment},
            )
        entry.started_s = time.monotonic()
        if process := Process.of(entry.process.pid, proc_fd=self.proc_fd):
            process.save(self.plan.run_dir.pids / name)
        logger.info("started %s, pid %s", name, entry.process.pid)

    def _reap(self) -> bool:
        """Note what has ended; False once the first process of the namespaces has."""
        for entry in self.running:
            if entry.process is not None and (code := entry.process.poll()) is not None:
                logger.warning("%s ended with %s", entry.component.name, code)
                entry.process = None
                if time.monotonic() - entry.started_s > _STABLE_S:
                    entry.delay_s = _FIRST_DELAY_S
                entry.due_s = time.monotonic() + entry.delay_s
                entry.delay_s = min(entry.delay_s * 2, _LONGEST_DELAY_S)
        return os.waitpid(self.init.pid, os.WNOHANG)[0] == 0


def _first_process(run_dir: RunDir, *, supervisor_ends: int, ready: int) -> NoReturn:
    """Be the first process of the pid namespace: arrange the node's folders, then bury the orphans."""
    namespaces.die_with_parent(signal.SIGKILL)
    if select.select([supervisor_ends], [], [], 0)[0]:
        os._exit(1)  # the supervisor ended before the line above
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    node.arrange(run_dir)
    os.write(ready, b"x")
    os.close(ready)
    while True:
        signal.sigwait({signal.SIGCHLD})
        for _ in _dead_children():
            pass


def _dead_children() -> Iterator[int]:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid


def _enter(run_dir: RunDir) -> tuple[Process, int]:
    """Enter the namespaces; returns their first process and the host's /proc.

    Raises OSError where the kernel or a missing capability forbids it.
    """
    proc_fd = os.open(PROC, os.O_RDONLY | os.O_DIRECTORY)
    namespaces.enter_new()
    ends_read, ends_write = os.pipe()
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ends_write)
        os.close(ready_read)
        try:
            _first_process(run_dir, supervisor_ends=ends_read, ready=ready_write)
        except BaseException:
            logger.exception("cannot arrange the node's namespaces")
            raise
        finally:
            os._exit(1)
    init = Process.of(pid, proc_fd=proc_fd)
    if init is not None:
        init.save(run_dir.pids / "init")
    os.close(ready_write)
    os.close(ends_read)
    if init is None or os.read(ready_read, 1) != b"x":
        raise OSError(f"the namespaces' first process ended; see {run_dir.logs / 'supervisor.log'}")
    return init, proc_fd


def _daemonize(run_dir: RunDir) -> None:
    """Leave the caller's session; the process that was called ends once the pid file is there."""
    ready_read, ready_write = os.pipe()
    if os.fork() != 0:
        os.close(ready_write)
        # End of file without the byte: the child died before it had a pid file.
        os._exit(0 if os.read(ready_read, 1) == b"x" else 1)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(run_dir.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    me = Process.of(os.getpid())
    if me is None:
        raise OSError("cannot read /proc")
    me.save(run_dir.pids / "supervisor")
    os.write(ready_write, b"x")
    os.close(ready_write)


def start(plan: Plan) -> None:
    """Start the supervisor of a cluster in the background; it is there when this returns.

    Raises DevclusterError where it ended at once.
    """
    programs = {"binaries": str(plan.binaries), "runc": str(plan.runc), "cni": str(plan.cni)}
    write(_plan_file(plan.run_dir), json.dumps(programs))
    root = str(Path(__file__).parent.parent)
    search = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "devcluster.supervisor", str(plan.run_dir.path)],
        check=False,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, MARK: str(plan.run_dir.path), "PYTHONPATH": search},
    )
    if done.returncode != 0:
        raise DevclusterError(
            f"the supervisor of cluster {plan.run_dir.name} did not start: {last_words(plan.run_dir)}"
        )


def load_plan(run_dir: RunDir) -> Plan:
    """Return what the cluster was started from.

    Raises DevclusterError where that is not on record.
    """
    addresses = run_dir.load()
    if addresses is None or not _plan_file(run_dir).exists():
        raise DevclusterError(f"{run_dir.path} holds no started cluster")
    programs = {key: Path(value) for key, value in json.loads(_plan_file(run_dir).read_text()).items()}
    return Plan(run_dir=run_dir, addresses=addresses, **programs)


def _plan_file(run_dir: RunDir) -> Path:
    return run_dir.etc / "plan.json"


def main(path: Path) -> None:
    """Supervise the cluster in this folder until its first process ends."""
    run_dir = RunDir(path)
    plan = load_plan(run_dir)
    _daemonize(run_dir)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        # Before the host's /proc is out of sight. Those that need no API server come first.
        components = (*node.components(plan), *control_plane.components(plan), simulated.component(plan))
        running = [_Running(component) for component in sorted(components, key=lambda item: item.needs_api)]
        init, proc_fd = _enter(run_dir)
        Supervisor(plan=plan, api=Api(run_dir, plan.addresses), proc_fd=proc_fd, init=init, running=running).run()
    except Exception:
        logger.exception("the supervisor cannot go on")
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
