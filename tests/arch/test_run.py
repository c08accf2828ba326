"""The program behind `make test`: it runs every suite, counts every test, and fails when anything failed."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def main(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Load tests/run.py, which is a program and no module of a package."""
    # The suites made here need no plug-ins; loading them takes a second each time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    spec = importlib.util.spec_from_file_location("tests_run", root / "tests/run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.main


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
    assert (status, lines[-2], lines[-1].split(" in ")[0]) == (
        1,
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
