"""The command line of set-up: look for what is missing, then bring what can be brought."""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from devcluster import build
from devcluster.preparation import needs as purposes
from devcluster.preparation.environments import node_step, python_steps
from devcluster.preparation.machine import binaries_to_build, debian_step, kubernetes_step, packages_to_install
from devcluster.preparation.preflight import missing
from devcluster.preparation.progress import clock
from devcluster.preparation.runner import Runner, Step, StepFailedError

INTERRUPTED = 130


def main(arguments: Sequence[str], root: Path) -> int:
    """Set up the checkout at ``root`` for one purpose and return an exit status."""
    parser = argparse.ArgumentParser(prog="prepare.py", description="Set up what a make target needs.")
    parser.add_argument("--for", dest="purpose", required=True, choices=sorted(purposes.PURPOSES))
    parser.add_argument("--context", default="", help="name of a cluster of your own; nothing is built then")
    options = parser.parse_args(arguments)
    # Started in the background of a script, a program inherits that Ctrl-C is ignored, and its children do from it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    run_dir = root / ".run"
    run_dir.mkdir(exist_ok=True)
    try:
        with _only_one(run_dir / "prepare.lock"):
            return _prepare(root, purposes.of(options.purpose, context=options.context), purpose=options.purpose)
    except KeyboardInterrupt:
        print("\nSet-up stopped; what is done stays done. Run the command again to go on.", file=sys.stderr)
        return INTERRUPTED


def _prepare(root: Path, needs: purposes.Needs, *, purpose: str) -> int:
    packages = packages_to_install(needs)
    binaries = binaries_to_build(needs)
    if lines := missing(needs, binaries_to_build=bool(binaries), packages=packages):
        for line in lines:
            print(f"missing: {line}", file=sys.stderr)
        return 1
    if binaries:
        minutes = sum(build.TOOLS[name].seconds for name in binaries) / 60
        print(f"Kubernetes has to be built once: about {minutes:.0f} min on two cores", file=sys.stderr)
    chains = [
        python_steps(root, hub5=needs.hub5, newest=needs.newest),
        [node_step(root)] if needs.proxy else [],
        [debian_step(packages)],
        [kubernetes_step(binaries)],
    ]
    return _bring([[step for step in chain if not step.is_done()] for chain in chains], root, purpose=purpose)


def _bring(chains: list[list[Step]], root: Path, *, purpose: str) -> int:
    chains = [chain for chain in chains if chain]
    if not chains:
        return 0
    names = ", ".join(step.name for chain in chains for step in chain)
    runner = Runner(root, root / ".run" / "prepare")
    runner.progress.line(f"Setting up for {purpose}: {names}")
    try:
        runner.run(chains)
    except StepFailedError as error:
        message = str(error).replace(f"{root}/", "")
        print(f"\nSet-up failed in {message}\n{error.tail()}\n  whole output: {error.log}", file=sys.stderr)
        return 1
    runner.progress.line(f"  {clock(runner.progress.elapsed_s):>6}  ready")
    return 0


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another set-up of this checkout to end...", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
