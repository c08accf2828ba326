"""The program behind `make test`: it runs every suite, counts every test, and fails when anything failed."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from devcluster.processes import poll


@pytest.fixture
def program(root: Path) -> ModuleType:
    """Load tests/run.py, which is a program and no module of a package."""
    spec = importlib.util.spec_from_file_location("tests_run", root / "tests/run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def main(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    # The suites made here need no plug-ins; loading them takes a second each time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    run: Callable[..., int] = program.main
    return run


def suite(name: str, *, tests: str, folder: Path) -> list[list[str]]:
    """Make a suite of one file that holds ``tests``."""
    (folder / f"test_{name}.py").write_text(tests)
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return [[*pytest_command, f"--junitxml=.run/reports/{name}.xml", f"test_{name}.py"]]


PASSING = "def test_one(): pass\ndef test_two(): pass\n"
MIXED = "import pytest\ndef test_good(): pass\ndef test_bad(): assert 0\n@pytest.mark.skip\ndef test_other(): pass\n"


@pytest.mark.timeout(60)
def test_all_that_passed_is_counted(main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    suites = {name: suite(name, tests=PASSING, folder=tmp_path) for name in ("first", "second")}
    status = main(["first", "second"], suites=suites, root=tmp_path)
    assert (status, capfd.readouterr().out.splitlines()[-1].split(" in ")[0]) == (0, "==== 4 passed")


@pytest.mark.timeout(60)
def test_a_failing_suite_fails_the_run_and_lets_the_next_one_run(
    main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    suites = {
        "bad": suite("bad", tests=MIXED, folder=tmp_path),
        "good": suite("good", tests=PASSING, folder=tmp_path),
    }
    status = main(["bad", "good"], suites=suites, root=tmp_path)
    lines = capfd.readouterr().out.splitlines()
    assert (status, lines[-4], lines[-2], lines[-1].split(" in ")[0]) == (
        1,
        "bad: test_bad::test_bad: assert 0",
        "failed: bad",
        "==== 3 passed, 1 failed, 1 skipped",
    )


@pytest.mark.timeout(60)
def test_a_suite_without_tests_fails(main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    status = main(["empty"], suites={"empty": suite("empty", tests="", folder=tmp_path)}, root=tmp_path)
    assert (status, "FAILED: there are no tests" in capfd.readouterr().out) == (1, True)


@pytest.mark.timeout(60)
def test_all_tools_of_a_suite_run_and_every_failure_is_named(
    main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    suites = {"check": [["false"], ["sh", "-c", "exit 7"], ["touch", "went-on"]]}
    status = main(["check"], suites=suites, root=tmp_path)
    assert (status, (tmp_path / "went-on").exists()) == (1, True)
    assert "FAILED: false ended with 1; sh ended with 7" in capfd.readouterr().out


@pytest.mark.timeout(60)
def test_a_suite_that_leaves_a_process_behind_fails(
    main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    # Until it is a `sleep`, it has no environment that could be read.
    running = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'
    command = ["sh", "-c", f"setsid sleep 600 > /dev/null 2>&1 & echo $! > pid; {running}"]
    status = main(["leaky"], suites={"leaky": [command]}, root=tmp_path)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert (status, "FAILED: left running: sleep (" in capfd.readouterr().out) == (1, True)


HIDDEN = "def test_asked_to_end():\n try: raise KeyboardInterrupt\n finally: assert 0\n" + PASSING


@pytest.mark.timeout(60)
def test_an_interruption_ends_a_suite_also_where_a_failing_clean_up_hides_it(
    main: Callable[..., int],
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PYTHONPATH", str(root))
    (command,) = suite("hidden", tests=HIDDEN, folder=tmp_path)
    status = main(["hidden"], suites={"hidden": [[*command, "-p", "tests.conftest"]]}, root=tmp_path)
    assert (status, capfd.readouterr().out.splitlines()[-1].split(" in ")[0]) == (1, "==== 1 failed")


# A suite's program: it says a line, and waits for what the other suite's program leaves; none takes half a minute.
SAYING = """
import os, pathlib, signal, sys, time

signal.alarm(30)

def leave(name):
    pathlib.Path(name).touch()

def wait(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.01)
"""
CAREFUL = """
try:
    print("{name} runs")
    leave("{name}")
    wait("never")
except KeyboardInterrupt:
    print("{name} cleans up")
    leave("{name}-asked")
    wait("patience")
    print("{name} is clean")
"""


def script(*lines: str) -> list[list[str]]:
    """Make a suite of one program in Python."""
    return [[sys.executable, "-u", "-c", "\n".join((SAYING, *lines))]]


def answering(name: str, other: str) -> list[list[str]]:
    """Make a suite that says three lines, and the other one says each of its own between them."""
    return script(*(f"print('{name} says {n}'); leave('{name}{n}'); wait('{other}{n}')" for n in range(3)))


@contextmanager
def started(
    root: Path, *, suites: Mapping[str, list[list[str]]], beside: Collection[str], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """Run all suites as `make` does, in a process of their own, whose output can be read."""
    script = (
        "import json, pathlib, run, signal, sys; suites, beside, folder = json.loads(sys.argv[1]);"
        # Where `nohup` runs the tests, this process would ignore the signal, too.
        "signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "sys.exit(run.main(list(suites), suites=suites, beside=beside, root=pathlib.Path(folder)))"
    )
    command = [sys.executable, "-c", script, json.dumps([suites, list(beside), str(folder)])]
    environment = os.environ | {"PYTHONPATH": str(root / "tests")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for_files(folder: Path, *names: str) -> None:
    """Wait until suites have left all of these."""
    assert poll(lambda: {*names} <= {path.name for path in folder.iterdir()}, timeout_s=30)


def lines_of(suites: Collection[str], shown: str) -> list[str]:
    """Return what suites have said, and their lines of the table."""
    return [line for line in shown.splitlines() if line.partition(" ")[0] in suites]


@pytest.mark.timeout(60)
def test_two_lanes_run_at_once_and_what_each_prints_is_whole(
    main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    suites = {"second": answering("second", "first"), "first": answering("first", "second")}
    status = main(["second", "first"], suites=suites, root=tmp_path, beside={"second"})
    *said, upper, lower = lines_of(suites, capfd.readouterr().out)
    assert (status, said) == (0, [f"{name} says {n}" for name in ("first", "second") for n in range(3)])
    # Of the table, which is in the order of the command line.
    assert (upper.split()[0], lower.split()[0]) == ("second", "first")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_interrupts_both_lanes_once_and_waits_until_they_are_clean(
    number: signal.Signals, root: Path, tmp_path: Path
):
    suites = {name: script(CAREFUL.format(name=name)) for name in ("first", "second", "third")}
    with started(root, suites=suites, beside={"second"}, folder=tmp_path) as process:
        for moment in ("", "-asked"):
            wait_for_files(tmp_path, *(f"{name}{moment}" for name in ("first", "second")))
            process.send_signal(number)
        (tmp_path / "patience").touch()
        *said, upper, lower = lines_of(suites, process.communicate()[0])
    assert process.returncode == 130
    assert said == [f"{name} {what}" for name in ("first", "second") for what in ("runs", "cleans up", "is clean")]
    assert [line.partition("FAILED: ")[2] for line in (upper, lower)] == ["interrupted", "interrupted"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("beside", ["broken", "good"])
def test_a_lane_that_breaks_leaves_the_other_one_its_result(
    beside: str, main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    suites = {"broken": [["no-such-program"]], "good": suite("good", tests=PASSING, folder=tmp_path)}
    status = main(["broken", "good"], suites=suites, root=tmp_path, beside={beside})
    lines = capfd.readouterr().out.splitlines()
    assert (status, lines[-2], lines[-1].split(" in ")[0]) == (1, "failed: broken", "==== 2 passed")


@pytest.mark.timeout(60)
def test_nothing_runs_beside_a_suite_that_runs_alone(main: Callable[..., int], tmp_path: Path):
    suites = {
        "first": script("leave('first')"),
        "other": script("wait('first')", "leave('busy')", "time.sleep(0.3)", "pathlib.Path('busy').unlink()"),
        "alone": script("time.sleep(0.1)", "sys.exit(pathlib.Path('busy').exists() or pathlib.Path('third').exists())"),
        "third": script("leave('third')"),
    }
    assert main(list(suites), suites=suites, root=tmp_path, beside={"other", "third"}, alone={"alone"}) == 0


def test_each_folder_of_tests_is_in_a_tier(program: ModuleType, root: Path):
    commands = [command for tier in program.TIERS.values() for name in tier for command in program.SUITES[name]]
    folders = {"/".join(each.split("/")[:2]) for command in commands for each in command if each.startswith("tests/")}
    assert folders == {f"tests/{path.name}" for path in (root / "tests").iterdir() if any(path.glob("**/test_*.py"))}


def test_no_suite_is_in_two_tiers(program: ModuleType):
    names = [name for tier in program.TIERS.values() for name in tier]
    assert len(names) == len({*names})


def test_each_test_of_a_folder_in_both_tiers_is_in_exactly_one(program: ModuleType):
    for folder in program.IN_BOTH_TIERS:
        (some,), (rest,) = program.SUITES[folder], program.SUITES[f"{folder}-rest"]
        differing = [pair for pair in zip(some, rest, strict=True) if len({*pair}) > 1]
        report, (chosen, left) = differing
        assert [each.endswith((f"/{folder}.xml", f"/{folder}-rest.xml")) for each in report] == [True, True]
        assert (chosen, left) == ("-m=smoke", "-m=not smoke")


def test_the_mark_stands_in_folders_in_both_tiers_only(program: ModuleType, root: Path):
    mark = "mark." + "smoke"  # this file is searched as well
    marked = {path for path in (root / "tests").rglob("test_*.py") if mark in path.read_text()}
    assert {path.relative_to(root / "tests").parts[0] for path in marked} == {*program.IN_BOTH_TIERS}


def test_what_imports_jupyterhub_or_kubespawner_is_tested_on_both_versions(program: ModuleType, root: Path):
    found = set()
    for path in (root / "gpuspawner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if {name.partition(".")[0] for name in names} & {"jupyterhub", "kubespawner"}:
                found.add(path.relative_to(root / "gpuspawner").parts[0])
    assert {f"tests/unit/{name}" for name in found} <= {*program.VERSIONED}


def test_both_environments_differ_in_jupyterhub_and_kubespawner_alone(root: Path):
    newer, older = (
        {line for line in (root / f"constraints/hub{number}.txt").read_text().splitlines() if "==" in line}
        for number in (6, 5)
    )
    # aiohttp finds names with aiodns and pycares where they are; the tests' servers have addresses.
    assert {line.partition("==")[0] for line in newer ^ older} == {
        *("jupyterhub", "jupyterhub-kubespawner", "aiodns", "pycares"),
    }
