"""Real values files become settings with the same servers. The files are data beside the project, not a part of it."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from gpuspawner.cli.compare import Scope, sides
from gpuspawner.cli.convert import build_values, convert_source, read_profile_source, verify, write_values
from gpuspawner.cli.main import main
from gpuspawner.core.catalog.pod_gpus import classify_pod
from gpuspawner.core.cluster.decode import decode_pod
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX
from gpuspawner.settings.profiles import Effect

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("GPUSPAWNER_PROFILES") or ROOT.parent / "shared" / "profiles")
FILES = sorted(FOLDER.glob("*.yaml"))

pytestmark = pytest.mark.skipif(not FILES, reason="needs a folder of values files: GPUSPAWNER_PROFILES")


each_file = pytest.mark.parametrize("file", [pytest.param(file, id=file.name.partition(".")[0]) for file in FILES])


@each_file
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


@each_file
def test_the_pod_of_every_choice_of_a_real_list_tells_its_gpus(file: Path, monkeypatch: pytest.MonkeyPatch):
    answers: list[Any] = []

    def record(side: Any) -> None:
        ask = side.answer

        async def answer(*args: Any, **named: Any) -> Any:
            answers.append((args[0], await ask(*args, **named)))
            return answers[-1][1]

        monkeypatch.setattr(side, "answer", answer)

    record(sides.ProfileSide)
    record(sides.SettingsSide)
    source = read_profile_source([str(file)], io.StringIO())
    converted = convert_source(source)
    verify(source, converted, values=build_values(source, converted), scope=Scope())
    told, named = [], []
    for (_, old), (side, new) in zip(answers[::2], answers[1::2], strict=True):
        pod = decode_pod(old.server.manifest)
        assert pod is not None
        gpus = classify_pod(pod.requests, side._catalog, constraints=pod.constraints)
        annotations = new.server.manifest["metadata"]["annotations"]
        told.append((gpus.gpu, gpus.count))
        named.append(
            (annotations.get(f"{ANNOTATION_PREFIX}gpu"), int(annotations.get(f"{ANNOTATION_PREFIX}gpu-count", 0)))
        )
    assert told == named
    assert told
