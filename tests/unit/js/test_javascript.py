"""Runs the tests of form.js, which node runs by itself: one test here for each file there.

What they hand to the script is compared with the schema of the JSON island, as the server's islands are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.islands import faults

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.test.mjs"))
SENTENCES = json.loads((HERE / "sentences.json").read_text())
WITHOUT_DATA = {"refresher"}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_the_form_script(file: Path, tmp_path: Path):
    handed = tmp_path / "handed"
    handed.touch()
    environment = os.environ | {"HANDED_TO_THE_SCRIPT": str(handed)}
    answer = subprocess.run(["node", "--test", file], env=environment, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.fail(answer.stdout + answer.stderr, pytrace=False)
    lines = set(handed.read_text().splitlines())
    assert (lines == set()) is (file.name.removesuffix(".test.mjs") in WITHOUT_DATA)
    assert [found for line in lines if (found := wrong(*json.loads(line)))] == []


def wrong(kind: str, value: object) -> list[str]:
    """List what is wrong with a value of one of the kinds that load.mjs tells apart."""
    return [f"{kind}{found.removeprefix('$')}" for found in faults(value, "" if kind == "island" else kind)]


def test_there_are_tests_for_the_form_script():
    assert FILES != []


@pytest.mark.parametrize("values", [case["values"] for case in SENTENCES])
def test_values_that_sentences_are_written_about_are_values_of_a_form(values: object):
    assert faults(values, "values") == []
