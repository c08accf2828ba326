from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def prepare(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run set-up as on a fresh machine: no site-packages, nothing but ``environment``."""
    command = [sys.executable, "-S", "-E", ROOT / "devcluster/prepare.py", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_set_up_needs_nothing_but_the_standard_library():
    assert prepare("--help", PATH=os.defpath).returncode == 0


@pytest.fixture
def bare_machine(tmp_path: Path) -> dict[str, str]:
    """Describe a machine without tools and without anything in its caches."""
    return {"PATH": str(tmp_path), "HOME": str(tmp_path), "GPUSPAWNER_CACHE_DIR": str(tmp_path / "cache")}


def test_everything_that_is_missing_is_said_in_a_line_each(bare_machine: dict[str, str]):
    answer = prepare("--for", "demo", **bare_machine)
    beginnings = {line[: len("missing: ")] for line in answer.stderr.splitlines()}
    assert (answer.returncode, answer.stdout, beginnings) == (1, "", {"missing: "})


def test_nothing_is_started_while_something_is_missing(bare_machine: dict[str, str], tmp_path: Path):
    prepare("--for", "demo", **bare_machine)
    assert list(tmp_path.iterdir()) == []
