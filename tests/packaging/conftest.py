"""One wheel and one environment for all packaging tests: built from the checkout, installed where no checkout is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "constraints/hub6.txt"
UV = Path(sys.executable).parent / "uv"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that has to succeed and give its output; a failure shows what it said."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    answer = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}\n{answer.stdout}{answer.stderr}", pytrace=False)
    return answer.stdout


def build(kind: str, source: Path, target: Path) -> Path:
    """Build a ``wheel`` or ``sdist`` of ``source`` in a clean environment of its own."""
    run(UV, "build", f"--{kind}", "--build-constraints", PINS, "--out-dir", target, source, cwd=target.parent)
    (built,) = (path for path in target.iterdir() if path.name != ".gitignore")
    return built


@pytest.fixture
def build_wheel() -> Callable[[Path, Path], Path]:
    return lambda source, target: build("wheel", source, target)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist") / "dist")


class Installation:
    """An environment that holds the wheel and its dependencies, and a folder far from the checkout to run in."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder = folder
        self._python = folder / "env/bin/python"
        run(UV, "venv", "--python", sys.executable, folder / "env", cwd=folder)
        run(UV, "pip", "install", "--python", self._python, "--constraint", PINS, wheel, cwd=folder)

    def python(self, script: str) -> str:
        """Run ``script`` isolated from the environment and the current folder; a warning about our own code fails."""
        options: Sequence[str] = ("-I", "-W", "error:::gpuspawner")
        return run(self._python, *options, "-c", textwrap.dedent(script), cwd=self._folder)


@pytest.fixture(scope="session")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("elsewhere"), wheel)
