"""Common settings of all tests: which of them run, their time limits, the head of the report, and the checkout.

Nothing here needs a cluster, a browser or root: the unit tests run on any machine that has Python.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from collections.abc import Generator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.row_ids import describe_row_value

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
# As root in another user's clone git refuses to answer; only the command line can say that this one is fine.
GIT = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
# Folder below tests/ → what its tests need; each needs its flag, or to be named on the command line.
SUITES_ON_REQUEST = {
    "cluster": "a local Kubernetes: root, and what `python3 devcluster/prepare.py --for cluster` sets up",
    "browser": "a local Kubernetes and Chromium: root, and what `python3 devcluster/prepare.py --for browser` sets up",
    "helm": "Helm: Go, and what `python3 devcluster/prepare.py --for helm` sets up",
    "packaging": "to build and install the wheel with uv, a minute the first time",
}
# Generous for a busy machine; a unit test that needs more waits for something it should have been given.
UNIT_TEST_TIMEOUT_S = 30

# No deadline for a single example: a busy machine is no bug. Under continuous integration examples are always the same,
# so that a failure there is one of the change that is tested.
hypothesis.settings.register_profile("gpuspawner", deadline=None, derandomize=os.environ.get("CI") == "true")
# For a second pair of JupyterHub and KubeSpawner: no law of ours depends on theirs, and the first had all examples.
hypothesis.settings.register_profile("second-pair", hypothesis.settings.get_profile("gpuspawner"), max_examples=20)
hypothesis.settings.load_profile("gpuspawner")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpuspawner")
    for suite, need in SUITES_ON_REQUEST.items():
        group.addoption(f"--{suite}", action="store_true", help=f"run tests/{suite}; they need {need}")


def pytest_report_header() -> str:
    names = ("jupyterhub", "jupyterhub-kubespawner", "kubernetes_asyncio", "pydantic")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        suite = item.path.relative_to(TESTS).parts[0]
        if suite == "unit" and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(UNIT_TEST_TIMEOUT_S))
        if suite in SUITES_ON_REQUEST:
            item.add_marker(suite)
            if not _is_wanted(config, suite):
                need = SUITES_ON_REQUEST[suite]
                item.add_marker(pytest.mark.skip(reason=f"needs {need}; run `make test-{suite}` or pass --{suite}"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name each row by what it holds."""
    return describe_row_value(val)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Run each test in a context of its own, as Tornado runs each request: no test finds what another one has set."""
    test = pyfuncitem.obj
    pyfuncitem.obj = lambda *args, **values: copy_context().run(test, *args, **values)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """End with a test that was interrupted, also where what it cleaned up failed and that is all that is known."""
    report = yield
    if call.excinfo is not None and _is_interruption(call.excinfo.value):
        item.session.shouldstop = "interrupted"
    return report


def _is_interruption(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, KeyboardInterrupt) or _is_interruption(error.__context__))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tracked_files() -> frozenset[Path]:
    """Every file of the checkout that is tracked, or new and not ignored."""
    command = [*GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    files = (ROOT / name for name in answer.stdout.split("\0") if name)
    return frozenset(file for file in files if file.is_file())


def _is_wanted(config: pytest.Config, suite: str) -> bool:
    named = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return bool(config.getoption(f"--{suite}")) or any(path.is_relative_to(TESTS / suite) for path in named)
