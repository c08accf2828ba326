"""The tables of docs/install/index.md: what is said there to go on top of any cloud's file does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuspawner.cli import main as cli
from tests.helm.support.files import BASE, FOLDER

_PAGE = (FOLDER.parent / "docs/install/index.md").read_text()
_WHERE, _ON_TOP = (
    [FOLDER / name for name in re.findall(r"helm-values/([\w-]+\.yaml)\) \|$", table, re.MULTILINE)]
    for table in _PAGE.partition("\n## ")[0].split("| what | values |")
)


def test_the_tables_and_what_takes_the_place_of_the_first_name_every_file():
    found = {path.name for path in FOLDER.glob("*.yaml")} - {"gpuspawner.yaml", "rbac.yaml"}
    assert found == {*(path.name for path in (*_WHERE, *_ON_TOP)), "amd.yaml"}


@pytest.mark.parametrize("overlay", _ON_TOP, ids=lambda path: path.stem)
@pytest.mark.parametrize("where", _WHERE, ids=lambda path: path.stem)
def test_each_overlay_goes_on_top_of_each_place(where: Path, overlay: Path, capsys: pytest.CaptureFixture[str]):
    status = cli.main(["check", "--output", "json", str(BASE), str(where), str(overlay)])
    found = [f"{each['path']}: {each['message']}" for each in json.loads(capsys.readouterr().out)["problems"]]
    assert (status, found) == (0, [])
