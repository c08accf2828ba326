"""Runs the tests of form.js, which node runs by itself: one test here for each file there.

The data that they hand to the script is compared with the schema of the JSON island, as the server's islands are.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuspawner._resources import data_dir
from gpuspawner.core.form.encoding import encode_view
from gpuspawner.core.text.i18n import Language, use_language
from gpuspawner.hub.form.rendering import translate_script
from gpuspawner.hub.request.languages import load_languages
from hatch_build import minify_all
from tests.unit.core.form.test_build import CATALOG, INVENTORY
from tests.unit.islands import build_view, faults

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.test.mjs"))
SENTENCES = json.loads((HERE / "sentences.json").read_text())
SCRIPTS = re.findall(r'asset\("(\w+\.js)"\)', (data_dir("templates") / "form.html").read_text())
WITHOUT_DATA = {"lists", "profiles", "refresher", "servers", "waiting"}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_the_form_script(file: Path, tmp_path: Path):
    handed = tmp_path / "handed"
    handed.touch()
    run(file, HANDED_TO_THE_SCRIPT=str(handed))
    lines = set(handed.read_text().splitlines())
    assert (lines == set()) is (file.name.removesuffix(".test.mjs") in WITHOUT_DATA)
    assert [found for line in lines if (found := wrong(*json.loads(line)))] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.mjs"))
def test_the_form_script_as_the_wheel_has_it(file: Path, tmp_path: Path):
    run(file, SCRIPT_AS_SERVED=str(served(tmp_path)))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js 20 or newer on PATH")
@pytest.mark.parametrize("language", load_languages().values(), ids=lambda language: language.tag)
def test_the_script_and_the_server_say_the_same_in_each_language(language: Language, tmp_path: Path):
    with use_language(language):
        told = [
            {**case, "sentence": build_view(CATALOG, INVENTORY, typed=case["values"]).summary} for case in SENTENCES
        ]
        island = json.loads((HERE / "island.json").read_text()) | {
            "choices": encode_view(build_view(CATALOG, INVENTORY))["choices"]
        }
        script = served(tmp_path)
    (tmp_path / "island.json").write_text(json.dumps(island))
    cases = tmp_path / "sentences.json"
    cases.write_text(json.dumps(told))
    run(
        HERE / "sentences.test.mjs",
        SCRIPT_AS_SERVED=str(script),
        SENTENCES=str(cases),
        ISLAND=str(tmp_path / "island.json"),
    )


def served(folder: Path) -> Path:
    """Write the script as an installed wheel serves it in the current language, and return the file."""
    minified = folder / "minified"
    minified.mkdir()
    minify_all(data_dir("templates"), minified)
    script = folder / "served.mjs"
    script.write_text("".join(translate_script((minified / name).read_text()) for name in SCRIPTS))
    return script


def run(file: Path, **variables: str) -> None:
    """Run a file of tests, and fail as it fails."""
    answer = subprocess.run(
        ["node", "--test", file], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        pytest.fail(answer.stdout + answer.stderr, pytrace=False)


def wrong(kind: str, value: Any) -> list[str]:
    """List what is wrong with a value of one of the kinds that load.mjs tells apart."""
    part = "" if kind == "island" else kind
    return [f"{kind}{found.removeprefix('$')}" for found in faults(value, part)]


def test_there_are_tests_for_the_form_script():
    assert FILES != []


@pytest.mark.parametrize("values", [case["values"] for case in SENTENCES])
def test_values_that_sentences_are_written_about_are_values_of_a_form(values: object):
    assert faults(values, "values") == []
