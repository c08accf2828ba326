"""Run suites, where that is possible side by side, and end with one table: what passed, what failed, how long it took.

    .venv/bin/python tests/run.py check unit
    .venv/bin/python tests/run.py test rest         # all suites of both tiers
    .venv/bin/python tests/run.py --table test rest # runs nothing: one table of what ran before

There are two tiers. ``test`` is what `make test` runs for each change. ``rest`` is what takes long: of the folders in
``IN_BOTH_TIERS``, all that is not marked with ``pytest.mark.smoke``. Each test is in one of the two.

Suites run in the order in which they are named, one after the other. Those in ``BESIDE`` run in a second lane meanwhile
and write into ``.run/reports/<suite>.log``. What is in there is shown whole, between two of the others when it is
complete, and as it comes once there are no others left. Nothing runs beside those in ``ALONE``.

A failing suite does not keep the next ones from running. Exit status 0 only if every suite passed, ran tests and
left no process behind. On Ctrl-C or SIGTERM, the program interrupts both lanes, and waits until they have cleaned up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TextIO
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ".run/reports"
INTERRUPTED = 130
# Set for everything a suite starts, and inherited by what that starts: who has it afterwards was left behind.
MARK = "GPUSPAWNER_TEST_RUN"
# A suite that was interrupted stops its cluster first.
STOP_TIMEOUT_S = 120
NO_TESTS_COLLECTED = 5
# An interrupted process may take a moment to be gone.
GRACE_S = 5.0
# How often a log that is shown while it is written is looked at.
LOOK_S = 0.5
# Of each suite so many failed tests are named at the end, with so many characters of the reason.
MAX_FAILED_SHOWN = 10
REASON_LENGTH = 300
# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _pytest(report: str, *arguments: str, environment: str = ".venv") -> list[str]:
    return [f"{environment}/bin/python", "-m", "pytest", f"--junitxml={REPORTS}/{report}.xml", *arguments]


FAULTS = "tests/cluster/test_faults.py"
STORM = "tests/cluster/test_policy_storm.py"
CHAOS = "tests/cluster/test_chaos.py"
# On all cores, with no test waiting behind a slow one.
PARALLEL = ("--numprocesses=auto", "--dist=worksteal")

# Unit tests of the packages that import JupyterHub or KubeSpawner, which tests/arch checks. Of all that .venv has,
# .venv-hub5 has other versions of these two only.
VERSIONED = tuple(f"tests/unit/{name}" for name in ("cli", "hub", "test_init.py"))
# The newest pre-releases are of their clients and of pydantic, too.
NEWEST = (*VERSIONED, "tests/unit/kube", "tests/unit/settings", "tests/unit/test_resources.py")

# Folder below tests/ whose tests take long → arguments of pytest. Those that are marked with `smoke` are a suite of the
# folder's name, all others one that is called <folder>-rest.
IN_BOTH_TIERS = {
    "fuzz": PARALLEL,
    "packaging": ("--packaging",),
    "browser": ("--browser",),
    "cluster": ("--cluster", *(f"--ignore={each}" for each in (FAULTS, STORM, CHAOS))),
}

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
    "unit-newest": [
        _pytest("unit-newest", *PARALLEL, "--hypothesis-profile=second-pair", *NEWEST, environment=".venv-newest")
    ],
    "docs": [_pytest("docs", "tests/docs")],
    "helm": [_pytest("helm", "--helm", "tests/helm")],
    **{
        f"{folder}{suffix}": [_pytest(f"{folder}{suffix}", f"-m={marked}", *arguments, f"tests/{folder}")]
        for folder, arguments in IN_BOTH_TIERS.items()
        for suffix, marked in (("", "smoke"), ("-rest", "not smoke"))
    },
    # Of connections that the API server cuts off, the tests' own client leaves sockets, some to the end of the process.
    "faults": [_pytest("faults", "--cluster", FAULTS, "-W", "ignore:unclosed <ssl.SSLSocket:ResourceWarning")],
    "storm": [_pytest("storm", "--cluster", STORM)],
    # The test's own client leaves connections that a killed API server cut off to the garbage collector.
    "chaos": [_pytest("chaos", "--cluster", "-W", "ignore:unclosed <ssl.SSLSocket:ResourceWarning", CHAOS)],
    "bench": [[".venv/bin/python", "-m", "bench"]],
}


# What one name on the command line stands for.
TIERS: Mapping[str, Sequence[str]] = {
    "test": ("check", "unit", "unit-hub5", "docs", "helm", *IN_BOTH_TIERS),
    "rest": tuple(f"{folder}-rest" for folder in IN_BOTH_TIERS),
}
# Wait more than they compute: for Kubernetes, for hubs, for what has to happen within a time. Two cores do the rest
# meanwhile. Both these and `browser` have clusters, each its own by name, addresses and ports.
BESIDE = frozenset({"cluster", "cluster-rest"})
# Measures, or has deadlines that hold on a machine with nothing else to do.
ALONE = frozenset({"faults", "storm", "chaos", "bench"})


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How a suite ended; ``counts`` are passed, failed and skipped tests, ``failed_tests`` their names and reasons.

    :param began_at: on the monotonic clock; None for one that was not begun.
    """

    suite: str
    began_at: float | None = None
    seconds: float = 0.0
    failure: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    failed_tests: list[str] = field(default_factory=list)


# Suites that run one after the other, and lanes of them that run side by side, the one in front first.
Lane = Sequence[Outcome]
Stage = Sequence[Lane]


def main(
    arguments: Sequence[str],
    *,
    suites: Suites = SUITES,
    root: Path = ROOT,
    beside: Collection[str] = BESIDE,
    alone: Collection[str] = ALONE,
) -> int:
    """Run the suites named in ``arguments`` in ``root`` and return an exit status."""
    parser = argparse.ArgumentParser(prog="tests/run.py")
    choices = (*suites, *TIERS)
    parser.add_argument("suites", nargs="+", choices=choices, metavar="suite", help=", ".join(choices))
    parser.add_argument("--table", action="store_true", help="run nothing: print the table of what ran before")
    options = parser.parse_args(arguments)
    outcomes = [Outcome(suite=suite) for name in options.suites for suite in TIERS.get(name, [name])]
    (root / REPORTS).mkdir(parents=True, exist_ok=True)
    is_complete = True
    if options.table:
        outcomes = [_read_outcome(root / REPORTS, outcome.suite) for outcome in outcomes]
    else:
        _watch_children_without_threads()
        is_complete = asyncio.run(Run(suites, root).stages(_arrange(outcomes, beside=beside, alone=alone)))
    _summarise([outcome for outcome in outcomes if outcome.began_at is not None or options.table])
    if not is_complete:
        return INTERRUPTED
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def _arrange(outcomes: Sequence[Outcome], *, beside: Collection[str], alone: Collection[str]) -> Iterator[Stage]:
    for _, group in itertools.groupby(outcomes, lambda each: each.suite in alone):
        members = list(group)
        lanes = [[each for each in members if (each.suite in beside) == is_beside] for is_beside in (False, True)]
        yield [lane for lane in lanes if lane]


class Run:
    """Runs suites side by side, and interrupts, supervises and shows each by itself."""

    def __init__(self, suites: Suites, root: Path) -> None:
        self._suites = suites
        self._root = root
        self._is_stopped = asyncio.Event()
        # Held while printing.
        self._console = asyncio.Lock()
        self._beside: Outcome | None = None

    async def stages(self, stages: Iterator[Stage]) -> bool:
        """Run stages one after the other and return whether none was interrupted."""
        loop = asyncio.get_running_loop()
        # A second Ctrl-C would cut the clean-up short, and does nothing. Started in the background of a script, a
        # program inherits that Ctrl-C is ignored, but what `nohup` had it ignore it goes on to ignore.
        for number in {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}:
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self._stop)
        for lanes in stages:
            front, *others = lanes
            is_front_over = asyncio.Event()
            await asyncio.gather(
                *(self._run_beside(lane, is_front_over) for lane in others), self._run_front(front, is_front_over)
            )
        return not self._is_stopped.is_set()

    def _stop(self) -> None:
        if not self._is_stopped.is_set():
            self._is_stopped.set()
            with contextlib.suppress(OSError):  # the terminal may be gone
                print(f"\n-- interrupted: running suites have {STOP_TIMEOUT_S} s to clean up", flush=True)

    async def _run_front(self, lane: Lane, is_over: asyncio.Event) -> None:
        try:
            for outcome in self._until_stopped(lane):
                async with self._console:
                    if self._beside is not None:
                        print(f"\n-- beside what follows: {self._so_far(self._beside)}", flush=True)
                    self._log(outcome).unlink(missing_ok=True)
                    await self._run_suite(outcome)
        finally:
            is_over.set()

    async def _run_beside(self, lane: Lane, is_front_over: asyncio.Event) -> None:
        shown = []
        for outcome in self._until_stopped(lane):
            is_over = asyncio.Event()
            try:
                with self._log(outcome).open("w") as output:
                    shown.append(asyncio.create_task(self._show(outcome, is_over, is_front_over)))
                    self._beside = outcome
                    await self._run_suite(outcome, output)
            finally:
                self._beside = None
                is_over.set()
        await asyncio.gather(*shown)

    def _until_stopped(self, lane: Lane) -> Iterator[Outcome]:
        return itertools.takewhile(lambda _: not self._is_stopped.is_set(), lane)

    async def _show(self, outcome: Outcome, is_over: asyncio.Event, is_front_over: asyncio.Event) -> None:
        """Print a suite's log whole, and all that is still written to it meanwhile."""
        await _first_of(is_over.wait(), is_front_over.wait())
        async with self._console:
            with self._log(outcome).open("rb") as log:
                is_all = False
                while not is_all:
                    is_all = is_over.is_set()
                    with contextlib.suppress(OSError):  # the reader may be gone; the suite still has to end well
                        sys.stdout.flush()
                        shutil.copyfileobj(log, sys.stdout.buffer)
                        sys.stdout.buffer.flush()
                    await _first_of(is_over.wait(), asyncio.sleep(LOOK_S))

    def _so_far(self, outcome: Outcome) -> str:
        seconds = time.monotonic() - (outcome.began_at or 0)
        log = self._log(outcome)
        percents = re.findall(rb"\[ *(\d+%)\]$", log.read_bytes(), re.MULTILINE)
        done = f", {percents[-1].decode()} done" if percents else ""
        return f"{outcome.suite}, for {seconds:.0f} s{done}, in {log.relative_to(self._root)}"

    def _log(self, outcome: Outcome) -> Path:
        return self._root / REPORTS / f"{outcome.suite}.log"

    async def _run_suite(self, outcome: Outcome, output: TextIO | None = None) -> None:
        """Run a suite to its end; the others go on even if it fails.

        :param output: where it prints to, None for where this program does.
        """
        outcome.began_at = time.monotonic()
        mark = f"{outcome.suite}-{uuid.uuid4()}"
        report, record = (self._root / REPORTS / f"{outcome.suite}.{kind}" for kind in ("xml", "json"))
        failures: list[str] = []
        try:
            for earlier in (report, record):
                earlier.unlink(missing_ok=True)
            for command in self._suites[outcome.suite]:
                print(f"\n-- {outcome.suite}: {' '.join(command)}", file=output, flush=True)
                status = await self._run_command(command, mark=mark, output=output)
                if self._is_stopped.is_set():
                    failures.append("interrupted")
                    break
                if failure := _explain(command, status):
                    failures.append(failure)
            if left := await _leftovers(mark):
                failures.append(f"left running: {', '.join(left)}")
            outcome.counts, outcome.failed_tests = _read_counts(report), _list_failed(report)
        except Exception as error:  # noqa: BLE001 - the other lane's result would be lost with it
            traceback.print_exc(file=output)
            failures.append(f"{type(error).__name__}: {error}")
        outcome.failure = "; ".join(failures)
        outcome.seconds = time.monotonic() - outcome.began_at
        record.write_text(json.dumps({each.name: getattr(outcome, each.name) for each in fields(outcome)}))

    async def _run_command(self, command: Sequence[str], *, mark: str, output: TextIO | None) -> int:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._root,
            env=os.environ | {MARK: mark},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Out of the terminal's foreground group: Ctrl-C comes from here, once. Should this program be killed, then
            # from the kernel.
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        try:
            await _first_of(process.wait(), self._is_stopped.wait())
        finally:
            await _end(process)
        return await process.wait()


def _watch_children_without_threads() -> None:
    """Have asyncio start no thread for each program.

    Once this process is killed, the kernel sends PR_SET_PDEATHSIG again for each thread that a program falls to: a
    second SIGINT would interrupt its clean-up. Python 3.12 needs no such threads.
    """
    if sys.platform == "linux" and sys.version_info < (3, 12):
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())


def _die_with_parent() -> None:
    if sys.platform == "linux":
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _leftovers(mark: str) -> list[str]:
    """List the processes that still carry ``mark`` in their environment when a moment has passed, as "name (pid)"."""
    deadline = time.monotonic() + GRACE_S
    while (found := _marked(mark)) and time.monotonic() < deadline:  # noqa: ASYNC110 - see below
        await asyncio.sleep(0.1)  # no child of this process, so no signal reports its end
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


def _list_failed(report: Path) -> list[str]:
    """List the tests that failed: of a long log, a reader may get only the end."""
    found = []
    for case in ET.parse(report).getroot().iter("testcase") if report.exists() else ():
        reasons = [each.get("message", "") for kind in ("failure", "error") for each in case.iter(kind)]
        if reasons:
            found.append(f"{case.get('classname')}::{case.get('name')}: {' '.join(reasons[0].split())[:REASON_LENGTH]}")
    return found


def _read_outcome(reports: Path, suite: str) -> Outcome:
    """Read how a suite ended in an earlier run."""
    try:
        found = json.loads((reports / f"{suite}.json").read_text())
    except FileNotFoundError:
        return Outcome(suite=suite, failure="did not run")
    return Outcome(**{**found, "counts": Counter(found["counts"])})


def _summarise(outcomes: Sequence[Outcome]) -> None:
    # All processes have the same monotonic clock, until the machine is started again.
    moments = [outcome.began_at for outcome in outcomes if outcome.began_at is not None]
    ends = [outcome.began_at + outcome.seconds for outcome in outcomes if outcome.began_at is not None]
    seconds = max(ends) - min(moments) if moments else 0.0
    print(f"\n{'suite':<16}{'passed':>8}{'failed':>8}{'skipped':>9}{'time':>8}")
    total: Counter[str] = Counter()
    for outcome in outcomes:
        counts = outcome.counts
        total += counts
        result = f"FAILED: {outcome.failure}" if outcome.failure else "ok"
        numbers = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
        print(f"{outcome.suite:<16}{numbers}{outcome.seconds:>6.0f} s  {result}")
    for outcome in outcomes:
        for test in outcome.failed_tests[:MAX_FAILED_SHOWN]:
            print(f"{outcome.suite}: {test}")
    failed = [outcome.suite for outcome in outcomes if outcome.failure]
    verdict = f"failed: {', '.join(failed)}" if failed else "all suites passed"
    counted = ", ".join(f"{total[name]} {name}" for name in ("passed", "failed", "skipped") if total[name])
    print(f"\n{verdict}\n==== {counted or 'no tests ran'} in {seconds:.2f}s ====", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
