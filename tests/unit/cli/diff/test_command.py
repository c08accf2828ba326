from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuspawner.cli.main import main
from tests.unit.cli.diff.conftest import DEFAULT, TEXT, Diff, make_profiles


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Values files: a profile list, the same with another spawner class, one that differs, and one for below them."""

    def edit(profiles: Any) -> None:
        profiles[1]["kubespawner_override"]["node_selector"] = {"pool": "a100"}

    documents = {
        "old": make_profiles(),
        "same": make_profiles(JupyterHub={"spawner_class": "gpuspawner.GPUSpawner"}),
        "new": make_profiles(edit),
        "base": {"singleuser": {"defaultUrl": "/lab"}},
    }
    for name, document in documents.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(document))
    return [str(tmp_path / f"{name}.yaml") for name in documents]


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["diff", *arguments])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_without_a_difference_only_the_counts_are_printed(files: list[str], capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(*files[:2], capsys=capsys)
    assert (status, out.splitlines()[-1], "OUTCOME" in out) == (0, "6 choices: 6 same.", False)


def test_differences_are_a_table(files: list[str], capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(files[0], files[2], capsys=capsys)
    lines = [re.split("  +", line) for line in out.splitlines()]
    assert status == 4
    assert lines[0] == ["OUTCOME", "CHOICE", "WHAT"]
    assert lines[1] == ["different", DEFAULT, "spec.nodeSelector.pool t4 → a100"]
    assert out.splitlines()[-1] == "6 choices: 2 same, 4 different."


def test_the_same_choices_are_listed_when_asked_for(files: list[str], capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(*files[:2], "--all", capsys=capsys)
    assert [line.split("  ")[0] for line in out.splitlines()[:7]] == ["OUTCOME", *["same"] * 6]


def test_each_mistake_is_a_line_that_names_its_file(files: list[str], capsys: pytest.CaptureFixture[str]):
    wrong = Path(files[1])
    document = yaml.safe_load(wrong.read_text())
    document["hub"]["config"]["GPUSpawner"] = {"gpus": {"a": {"resource": "gpu"}}, "imges": {}, "cpu": {"max": 0}}
    wrong.write_text(yaml.safe_dump(document))
    status, _, told = run(files[0], str(wrong), capsys=capsys)
    lines = told.splitlines()
    assert (status, len(lines) > 1) == (1, True)
    assert [line for line in lines if not line.startswith(f"gpuspawner diff: {wrong}:")] == []


def test_json_has_everything(files: list[str], capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(files[0], files[2], "--output", "json", capsys=capsys)
    document = json.loads(out)
    assert (status, document["counts"], document["totals"], document["limit"]) == (
        4,
        {"same": 2, "different": 4},
        {"old": 6, "new": 6},
        200,
    )
    assert document["choices"][2] == {
        "choice": DEFAULT,
        "options": {"profile": "gpu", "image": "cuda", "size": "small"},
        "outcome": "different",
        "differences": [{"field": "spec.nodeSelector.pool", "old": "t4", "new": "a100"}],
    }


def test_of_too_many_choices_those_nearest_to_the_defaults_are_tried(
    files: list[str], capsys: pytest.CaptureFixture[str]
):
    _, out, _ = run(*files[:2], "--limit", "4", "--all", capsys=capsys)
    lines = out.splitlines()
    assert [re.split("  +", line)[1] for line in lines[1:5]] == ["no choice", "profile small", DEFAULT, TEXT]
    assert lines[-3:] == [
        "Tried: 4 of 6 choices of OLD, those nearest to the defaults (--limit).",
        "Tried: 4 of 6 choices of NEW, those nearest to the defaults (--limit).",
        "4 choices: 4 same.",
    ]


def test_a_choice_beyond_the_limit_of_the_other_file_is_found_there(diff: Diff):
    _, report = diff(make_profiles(lambda profiles: profiles.pop(0)), make_profiles(), "--limit", "2")
    assert [(result["choice"], result["outcome"]) for result in report["choices"]] == [
        ("no choice", "different"),
        (DEFAULT, "same"),
        ("profile small", "only new"),
    ]


def test_files_of_f_are_below_both_sides(files: list[str], capsys: pytest.CaptureFixture[str]):
    status, _, _ = run("-f", files[3], *files[:2], capsys=capsys)
    alone, out, _ = run(files[3], files[3], "--output", "json", capsys=capsys)
    assert (status, alone, json.loads(out)["counts"]) == (0, 0, {"same": 1})


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        pytest.param("hub: [", 1, "bad.yaml", id="no YAML"),
        pytest.param("- a\n", 1, "must hold a mapping", id="no mapping"),
        pytest.param("hub: {config: {GPUSpawner: {presets: 3}}}", 1, "presets", id="wrong settings"),
        pytest.param("singleuser: {profileList: [{}]}", 1, "gpuspawner check names the place", id="no profile"),
        pytest.param("hub: 3", 1, "hub", id="wrong section"),
    ],
)
def test_a_wrong_file_is_named(
    text: str, status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "bad.yaml").write_text(text)
    result, out, error = run(str(tmp_path / "bad.yaml"), str(tmp_path / "bad.yaml"), capsys=capsys)
    assert (result, out, message in error) == (status, "", True)


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["diff", "-", "-"])
    assert (stopped.value.code, "only one file" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "²", "1000001"])
def test_a_limit_is_a_number(number: str, files: list[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["diff", *files[:2], f"--limit={number}"])
    assert stopped.value.code == 2
