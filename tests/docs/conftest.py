"""The documentation as its tests see it: pages, and what a reader may follow from them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# As root in another user's clone git refuses to answer; only the command line can say that this one is fine.
GIT = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]


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
