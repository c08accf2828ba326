"""Runs the tests of form.js, which node runs by itself: one test here for each file there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("*.test.mjs"))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_the_form_script(file: Path):
    answer = subprocess.run(["node", "--test", file], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.fail(answer.stdout + answer.stderr, pytrace=False)


def test_there_are_tests_for_the_form_script():
    assert FILES != []
