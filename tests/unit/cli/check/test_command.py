from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gpuspawner.cli.main import main
from tests.unit.cli_support import section, told, written

RIGHT = section("cpu: {max: 4}")
WRONG = section("cpu: {max: 4, maxx: 1}\nmemory: {max: 4Q}")
DOUBTFUL = section("discover_gpus: false")
HINTED = section("images: {a: {image: quay.io/a/b:1}}")


def checked(folder: Path, *texts: str, options: tuple[str, ...] = ()) -> int:
    files = [folder / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return main(["check", *map(str, files), *options])


@pytest.mark.parametrize(
    ("text", "options", "status"),
    [
        (RIGHT, (), 0),
        (WRONG, (), 1),
        (DOUBTFUL, (), 0),
        (DOUBTFUL, ("--strict",), 1),
        (HINTED, ("--strict", "-v"), 0),
        ("a: [", (), 1),
    ],
)
def test_scripts_can_tell_what_is_found(text: str, options: tuple[str, ...], status: int, tmp_path: Path):
    assert checked(tmp_path, text, options=options) == status


def test_a_file_that_cannot_be_read_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(tmp_path / "missing.yaml")]) == 3
    assert "No such file" in capsys.readouterr().err


def test_each_problem_is_a_line_that_begins_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    checked(tmp_path, WRONG)
    place = f"{tmp_path}/0.yaml"
    assert capsys.readouterr().out.splitlines() == [
        f"{place}:5:21: error: hub.config.GPUSpawner.cpu.maxx: there is no such key. Did you mean 'max'?",
        f"{place}:6:21: error: hub.config.GPUSpawner.memory.max: must be an amount of memory with a unit, such as 512M"
        " or 16G, not '4Q'",
        "1 file: 2 errors",
    ]


def test_hints_are_given_when_they_are_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    checked(tmp_path, HINTED)
    assert capsys.readouterr().out == "1 file: no problems\n"
    checked(tmp_path, HINTED, options=("-v",))
    assert "    prePuller:\n      extraImages:\n" in capsys.readouterr().out


def test_programs_get_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    checked(tmp_path, DOUBTFUL, options=("--output", "json"))
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["errors"], report["warnings"]) == (True, 0, 1)
    (problem,) = report["problems"]
    assert (problem["severity"], problem["path"], problem["line"]) == (
        "warning",
        "hub.config.GPUSpawner.discover_gpus",
        5,
    )
    checked(tmp_path, DOUBTFUL, options=("--output", "yaml"))
    assert yaml.safe_load(capsys.readouterr().out) == report


def test_files_are_looked_at_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert checked(tmp_path, WRONG, "hub: {config: {GPUSpawner: {cpu: null, memory: {max: 4G}}}}") == 0
    assert capsys.readouterr().out == "2 files: no problems\n"


def test_all_kinds_of_problems_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lower = section("cpu: {max: 4, max: 8}\nimagse: {}\ngpus: {A: {resource: nvidia.com/gpu}}", beside="presets: {}\n")
    assert checked(tmp_path, lower, "a: 1\na: 2\n---\nb: 1\n") == 1
    told = capsys.readouterr().out
    parts = ("cpu.max: is written twice", "imagse: there is no such setting", "gpus.A: must be lower-case")
    parts += ("presets: is ignored here; move it to", "1.yaml:2:1: error: a: is written twice", "second document")
    for part in parts:
        assert part in told, part


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    checked(tmp_path, "a: [", "b: 1\nb: 2")
    told = capsys.readouterr().out
    assert ("0.yaml:1:5: error" in told, "1.yaml:2:1: error: b" in told, "2 errors" in told) == (True, True, True)


@pytest.mark.parametrize(
    ("parts", "number"),
    [
        ((("images:", "  i{0}: {{image: quay.io/a/b:1, imagee: x}}"),), 4000),
        (
            (
                ("gpus:", "  gpu-{0}: {{resource: nvidia.com/gpu, match: {{pool: a}}}}"),
                ("pools:", "  p{0}: {{gpus: [gpux-{0}], groups: [a], max_gpus: 1}}"),
            ),
            1000,
        ),
    ],
    ids=["unknown keys", "names that are like a thousand others"],
)
def test_a_thousand_entries_are_checked_before_a_test_is_given_up(
    parts: tuple[tuple[str, str], ...], number: int, tmp_path: Path
):
    lines = [line for head, entry in parts for line in (head, *(entry.format(each) for each in range(number)))]
    found = told(written(tmp_path, section("\n".join(lines))))
    assert len(found) >= number
