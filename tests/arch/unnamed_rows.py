"""A plug-in for ``pytest --collect-only``: it prints the tests of four rows or more whose rows are only numbered."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.arch.sources import ROOT

MANY_ROWS = 4
"""From this number on a row has to say what it is."""
MARK = "unnamed rows: "


def find_unnamed_rows(root: Path) -> list[str]:
    """Return the tests below ``root`` that have rows with a number for a name."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        __name__,
        "-p",
        "no:cacheprovider",
        "tests",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # the plug-in is here, whatever is collected
    answer = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(answer.stdout[-2000:] + answer.stderr[-2000:])
    return sorted(line.removeprefix(MARK) for line in answer.stdout.splitlines() if line.startswith(MARK))


def is_numbered(item: pytest.Function) -> bool:
    """Return whether one of a row's values is named by its argument and a number, as pytest does as a last resort."""
    spec = item.callspec
    pieces = spec.id.split("-")
    return any(f"{name}{spec.indices[name]}" in pieces for name in spec.params)


def pytest_collection_finish(session: pytest.Session) -> None:
    rows: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in session.items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            rows[item.nodeid.partition("[")[0]].append(item)
    for test, items in rows.items():
        numbered = sum(map(is_numbered, items))
        if len(items) >= MANY_ROWS and numbered:
            print(f"{MARK}{test}: {numbered} of {len(items)}")  # noqa: T201 - its caller reads it
