"""The checkout as the architecture tests see it: files that git tracks or would, and the sources among them."""

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
def tracked_files() -> list[Path]:
    """Every file of the checkout that is tracked, or new and not ignored."""
    answer = subprocess.run(
        [*GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    files = (ROOT / name for name in answer.stdout.split("\0") if name)
    return [file for file in files if file.is_file()]


@pytest.fixture(scope="session")
def sources(tracked_files: list[Path]) -> list[Path]:
    """Every Python file of the checkout."""
    return [file for file in tracked_files if file.suffix == ".py"]
