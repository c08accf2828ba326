"""Real values files become settings with the same servers. The files are data beside the project, not a part of it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from gpuspawner.cli.compare import Scope
from gpuspawner.cli.convert import build_values, convert_source, read_profile_source, verify, write_values
from gpuspawner.cli.main import main
from gpuspawner.settings.profiles import Effect

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("GPUSPAWNER_PROFILES") or ROOT.parent / "shared" / "profiles")
FILES = sorted(FOLDER.glob("*.yaml"))

pytestmark = pytest.mark.skipif(not FILES, reason="needs a folder of values files: GPUSPAWNER_PROFILES")


@pytest.mark.parametrize("file", [pytest.param(file, id=file.name.partition(".")[0]) for file in FILES])
def test_every_choice_of_a_real_list_gives_the_same_server(file: Path, tmp_path: Path):
    source = read_profile_source([str(file)], io.StringIO())
    converted = convert_source(source)
    values = build_values(source, converted)
    report = verify(source, converted, values=values, scope=Scope())
    assert [(each.pair.label, each.details) for each in report.results if each.outcome != "same"] == []
    assert [note for note in converted.notes if note.cause.effect is Effect.REFUSED] == []
    new = tmp_path / "converted.yaml"
    with new.open("w") as opened:
        write_values(values, opened, output="yaml")
    assert main(["check", "--strict", str(new)]) == 0
    assert main(["check", "--strict", str(file), str(new)]) == 0
