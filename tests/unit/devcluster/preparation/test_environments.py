from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from devcluster.preparation.environments import python_steps
from devcluster.preparation.runner import Step

INPUTS = (
    "pyproject.toml",
    "hatch_build.py",
    "constraints/hub6.txt",
    "constraints/left-out.txt",
    "gpuspawner/locale/de.po",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Hold the files that environments are made from."""
    (tmp_path / "constraints").mkdir()
    (tmp_path / "gpuspawner/locale").mkdir(parents=True)
    for name in (*INPUTS, "package.json", "package-lock.json", "constraints/hub5.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def make(step: Step, folder: Path) -> None:
    """Do what the step's commands would leave behind, and finish the step."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin/python").touch()
    step.finish()


def test_a_finished_environment_is_not_made_again(checkout: Path):
    make(python_steps(checkout, hub5=False)[0], checkout / ".venv")
    assert [step.is_done() for step in python_steps(checkout, hub5=False)] == [True]


@pytest.mark.parametrize("changed", [*INPUTS, "gpuspawner/locale/new.po"])
def test_a_changed_dependency_is_noticed(checkout: Path, changed: str):
    make(python_steps(checkout, hub5=False)[0], checkout / ".venv")
    (checkout / changed).write_text("changed")
    assert [step.is_done() for step in python_steps(checkout, hub5=False)] == [False]


def test_left_out_packages_are_not_in_the_environment_of_the_tests():
    lines = (Path(__file__).parents[4] / "constraints/left-out.txt").read_text().splitlines()
    (name,) = (line for line in lines if not line.startswith("#"))
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version(name)


def test_the_pins_of_one_environment_do_not_concern_the_other(checkout: Path):
    for step, name in zip(python_steps(checkout, hub5=True), (".venv", ".venv-hub5"), strict=True):
        make(step, checkout / name)
    (checkout / "constraints/hub5.txt").write_text("changed")
    assert [step.is_done() for step in python_steps(checkout, hub5=True)] == [True, False]


def test_the_newest_pre_releases_are_looked_for_each_time(checkout: Path):
    *_, step = python_steps(checkout, hub5=False, newest=True)
    make(step, checkout / ".venv-newest")
    (install,) = (command for command in step.commands() if "install" in command)
    assert (step.name, step.is_done(), install[install.index("--prerelease") + 1]) == (
        "python .venv-newest",
        False,
        "allow",
    )
    assert install[install.index("--overrides") + 1] == str(checkout / "constraints/newest.in")


def test_an_environment_whose_interpreter_is_gone_is_made_again(checkout: Path):
    make(python_steps(checkout, hub5=False)[0], checkout / ".venv")
    (checkout / ".venv/bin/python").unlink()
    assert [step.is_done() for step in python_steps(checkout, hub5=False)] == [False]


def test_an_environment_of_a_checkout_that_moved_is_cleared_first(checkout: Path, tmp_path: Path):
    make(python_steps(checkout, hub5=False)[0], checkout / ".venv")
    stamp = checkout / ".venv/.gpuspawner-stamp.json"
    stamp.write_text(stamp.read_text().replace(str(checkout), "/where/it/was"))
    assert "--clear" in python_steps(checkout, hub5=False)[0].commands()[0]


def test_an_environment_someone_is_using_is_not_cleared(checkout: Path):
    make(python_steps(checkout, hub5=False)[0], checkout / ".venv")
    (checkout / "pyproject.toml").write_text("changed")
    assert "--clear" not in python_steps(checkout, hub5=False)[0].commands()[0]


def test_every_installation_is_pinned(checkout: Path):
    installs = [
        command for step in python_steps(checkout, hub5=True) for command in step.commands() if "install" in command
    ]
    assert [("--constraint" in command) for command in installs] == [True, True, True]
