from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.main import main


def checkout(folder: Path, recipe: str) -> Path:
    """Make a folder that looks like the project's, whose demo writes down how it was called."""
    (folder / "devcluster/demo").mkdir(parents=True)
    (folder / "devcluster/demo/__main__.py").touch()
    (folder / "Makefile").write_text(f"demo:\n\t@{recipe}\n")
    return folder


@pytest.mark.parametrize(("arguments", "context"), [([], ""), (["--context", "mine"], "mine")])
def test_the_demo_of_the_checkout_is_run(tmp_path: Path, arguments: list[str], context: str):
    folder = checkout(tmp_path, "echo '$(CONTEXT)' > called")
    assert main(["demo", "--checkout", str(folder), *arguments]) == 0
    assert (folder / "called").read_text() == f"{context}\n"


def test_a_demo_that_fails_is_reported(tmp_path: Path):
    assert main(["demo", "--checkout", str(checkout(tmp_path, "exit 1"))]) == 3


def test_the_folder_that_one_is_in_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(checkout(tmp_path, "touch called"))
    assert (main(["demo"]), (tmp_path / "called").exists()) == (0, True)


def test_without_a_checkout_there_is_no_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--checkout", str(tmp_path)]) == 3
    assert "there is no checkout of the project here" in capsys.readouterr().err
