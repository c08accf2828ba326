"""Run suites one after the other and end with one table: what passed, what failed, how long it took.

    .venv/bin/python tests/run.py check unit unit-hub5 docs fuzz packaging helm cluster browser

A failing suite does not keep the next ones from running. Exit status 0 only if every suite passed, ran tests and
left no process behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ".run/reports"
INTERRUPTED = 130
# Set for everything a suite starts, and inherited by what that starts: who has it afterwards was left behind.
MARK = "GPUSPAWNER_TEST_RUN"
# A suite that was interrupted stops its cluster first.
STOP_TIMEOUT_S = 120
NO_TESTS_COLLECTED = 5
# What was told to end may take a moment to be gone.
GRACE_S = 5.0


def _pytest(report: str, *arguments: str, environment: str = ".venv") -> list[str]:
    return [f"{environment}/bin/python", "-m", "pytest", f"--junitxml={REPORTS}/{report}.xml", *arguments]


FAULTS = "tests/cluster/test_faults.py"
STORM = "tests/cluster/test_policy_storm.py"
# On all cores, with no test waiting behind a slow one.
PARALLEL = ("--numprocesses=auto", "--dist=worksteal")

# Unit tests of what stands on JupyterHub, KubeSpawner and their clients; the layers keep everything else off them.
VERSIONED = tuple(
    f"tests/unit/{name}" for name in ("cli", "hub", "kube", "settings", "test_init.py", "test_resources.py")
)

# Suite → its commands, all of which run. A suite's report carries its name.
Suites = Mapping[str, Sequence[Sequence[str]]]
SUITES: Suites = {
    "check": [
        [".venv/bin/ruff", "format", "--check", "."],
        [".venv/bin/ruff", "check", "--output-format=concise", "."],
        [".venv/bin/mypy"],
        _pytest("check", "tests/arch"),
    ],
    "unit": [_pytest("unit", *PARALLEL, "tests/unit")],
    "unit-hub5": [
        _pytest("unit-hub5", *PARALLEL, "--hypothesis-profile=second-pair", *VERSIONED, environment=".venv-hub5")
    ],
    "docs": [_pytest("docs", "tests/docs")],
    "fuzz": [_pytest("fuzz", *PARALLEL, "tests/fuzz")],
    "packaging": [_pytest("packaging", "--packaging", "tests/packaging")],
    "helm": [_pytest("helm", "--helm", "tests/helm")],
    # These two take minutes and a machine with nothing else to do.
    "cluster": [_pytest("cluster", "--cluster", "tests/cluster", f"--ignore={FAULTS}", f"--ignore={STORM}")],
    "faults": [_pytest("faults", "--cluster", FAULTS)],
    "storm": [_pytest("storm", "--cluster", STORM)],
    "browser": [_pytest("browser", "--browser", "tests/browser")],
    "bench": [[".venv/bin/python", "-m", "bench"]],
}


class Terminated(KeyboardInterrupt):
    """This program alone was asked to end; a Ctrl-C reaches the suite's process as well."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How a suite ended; ``counts`` are passed, failed and skipped tests."""

    suite: str
    seconds: float = 0.0
    failure: str = ""
    counts: Counter[str] = field(default_factory=Counter)


def main(arguments: Sequence[str], *, suites: Suites = SUITES, root: Path = ROOT) -> int:
    """Run the suites named in ``arguments`` in ``root`` and return an exit status."""
    parser = argparse.ArgumentParser(prog="tests/run.py")
    parser.add_argument("suites", nargs="+", choices=suites, metavar="suite", help=", ".join(suites))
    names = parser.parse_args(arguments).suites
    (root / REPORTS).mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    try:
        for name in names:
            outcomes.append(Outcome(suite=name, failure="interrupted"))
            _run_suite(outcomes[-1], suites[name], root=root)
    except KeyboardInterrupt:
        _summarise(outcomes)
        return INTERRUPTED
    _summarise(outcomes)
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def _run_suite(outcome: Outcome, commands: Sequence[Sequence[str]], *, root: Path) -> None:
    report = root / REPORTS / f"{outcome.suite}.xml"
    report.unlink(missing_ok=True)
    mark = f"{outcome.suite}-{uuid.uuid4()}"
    failures: list[str] = []
    began = time.monotonic()
    try:
        for command in commands:
            print(f"\n-- {outcome.suite}: {' '.join(command)}", flush=True)
            if failure := _explain(command, _run_command(command, root=root, mark=mark)):
                failures.append(failure)
        if left := _leftovers(mark):
            failures.append(f"left running: {', '.join(left)}")
        outcome.failure = "; ".join(failures)
    finally:
        outcome.seconds = time.monotonic() - began
        outcome.counts = _read_counts(report)


def _run_command(command: Sequence[str], *, root: Path, mark: str) -> int:
    with subprocess.Popen(command, cwd=root, env=os.environ | {MARK: mark}, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait()
        except KeyboardInterrupt as reason:
            # A second Ctrl-C would cut its clean-up short.
            if isinstance(reason, Terminated):
                process.send_signal(signal.SIGINT)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def _leftovers(mark: str) -> list[str]:
    """List the processes that still carry ``mark`` in their environment when a moment has passed, as "name (pid)"."""
    deadline = time.monotonic() + GRACE_S
    while (found := _marked(mark)) and time.monotonic() < deadline:
        threading.Event().wait(0.1)
    return found


def _marked(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if is_marked:
                found.append(f"{(folder / 'comm').read_text().strip()} ({folder.name})")
        except OSError:
            continue  # it ended meanwhile, or is not ours to look at
    return found


def _explain(command: Sequence[str], status: int) -> str:
    if status == 0:
        return ""
    program, first = Path(command[0]).name, command[1] if len(command) > 1 else ""
    tool = "pytest" if "pytest" in command else f"{program} {first}" if first.isalpha() else program
    return "there are no tests" if (tool, status) == ("pytest", NO_TESTS_COLLECTED) else f"{tool} ended with {status}"


def _read_counts(report: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    if report.exists():
        for suite in ET.parse(report).getroot().iter("testsuite"):
            numbers = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
            failed = numbers["failures"] + numbers["errors"]
            counts["failed"] += failed
            counts["skipped"] += numbers["skipped"]
            counts["passed"] += numbers["tests"] - failed - numbers["skipped"]
    return counts


def _summarise(outcomes: Sequence[Outcome]) -> None:
    print(f"\n{'suite':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>8}")
    total: Counter[str] = Counter()
    for outcome in outcomes:
        counts = outcome.counts
        total += counts
        result = f"FAILED: {outcome.failure}" if outcome.failure else "ok"
        numbers = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
        print(f"{outcome.suite:<12}{numbers}{outcome.seconds:>6.0f} s  {result}")
    failed = [outcome.suite for outcome in outcomes if outcome.failure]
    verdict = f"failed: {', '.join(failed)}" if failed else "all suites passed"
    counted = ", ".join(f"{total[name]} {name}" for name in ("passed", "failed", "skipped") if total[name])
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f"\n{verdict}\n==== {counted or 'no tests ran'} in {seconds:.2f}s ====", flush=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


if __name__ == "__main__":
    # Started in the background of a script, a program inherits that Ctrl-C is ignored, and its children do from it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main(sys.argv[1:]))
