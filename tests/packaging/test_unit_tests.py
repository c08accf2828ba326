"""Where only the wheel is, the unit tests of what an admin meets first pass: settings, `check`, traits and pods."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Protocol

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A minute on two cores.
UNIT_TESTS = [f"tests/unit/{name}" for name in ("settings", "cli/check", "hub/config", "hub/pod", "test_init.py")]


class Installation(Protocol):
    """An environment that holds the wheel."""

    @property
    def interpreter(self) -> Path: ...

    def add(self, requirement: str) -> None: ...


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_unit_tests_pass_where_only_the_wheel_is(installation: Installation, tmp_path: Path):
    installation.add("gpuspawner[test]")
    for name in ("tests", "devcluster", "helm-values"):  # what the tests read besides the package
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [installation.interpreter, "-m", "pytest", "--quiet", "--numprocesses=auto", *UNIT_TESTS]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        pytest.fail(f"{ended.stdout[-4000:]}{ended.stderr[-4000:]}", pytrace=False)
