from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuspawner import __version__
from gpuspawner.cli import version
from gpuspawner.cli.main import main


def test_help_names_every_command_with_what_it_does(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    assert "diff" in (told := capsys.readouterr().out)
    assert "Compare two values files" in told


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"gpuspawner {__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["check"], ["check", "x", "--output", "xml"]])
def test_a_wrong_call_is_refused_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: gpuspawner" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ["explain", "--gpu", "t4", "--gpu-count", "2"],
            "unrecognized arguments: --gpu-count 2; did you mean --count?",
        ),
        (["doctor", "--kubconfig=a"], "unrecognized arguments: --kubconfig=a; did you mean --kubeconfig?"),
        (["check", "a.yaml", "--zzz"], "unrecognized arguments: --zzz\n"),
    ],
)
def test_an_unknown_option_is_told_the_nearest(arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    told = capsys.readouterr().err
    assert (left.value.code, hint in told, f"usage: gpuspawner {arguments[0]}" in told) == (2, True, True)


def test_what_cannot_be_done_is_one_line_and_3(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "/no/such/file.yaml"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "gpuspawner check: /no/such/file.yaml: No such file or directory"


def test_ctrl_c_ends_a_command_without_a_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(version, "run", interrupted)
    assert (main(["version"]), capsys.readouterr().err) == (130, "")


def test_what_a_terminal_has_no_characters_for_is_written_all_the_same(tmp_path: Path):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", "import sys; from gpuspawner.cli.main import main; sys.exit(main())"]
    file = tmp_path / "grün.yaml"
    ended = subprocess.run([*command, "check", str(file)], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, "gr\\xfcn.yaml" in ended.stderr) == (3, True)


@pytest.mark.parametrize("arguments", [["convert"], ["convert", "values.yaml", "--verify"]], ids=["bare", "file"])
def test_convert_says_that_there_is_nothing_to_convert(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    assert capsys.readouterr() == (
        "",
        "There is nothing to convert: set the hub's spawner_class to gpuspawner.GPUSpawner and keep profile_list.\n",
    )
