"""One source archive, one wheel and one environment for all packaging tests, far from the checkout.

The archives are built here, or by `make dist`, which names their folder in ``GPUSPAWNER_DIST``. Both ways the wheel is
built from the source archive, as uv does.
"""

from __future__ import annotations

import os
import shutil
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


@pytest.fixture(scope="session")
def build_one() -> Callable[[str, Path, Path], Path]:
    return build


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the source archive and the wheel; both are copies, so that no test reads the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    if built := os.environ.get("GPUSPAWNER_DIST"):
        for file in (*Path(ROOT, built).glob("*.whl"), *Path(ROOT, built).glob("*.tar.gz")):
            shutil.copy(file, folder)
    else:
        run(UV, "build", "--build-constraints", PINS, "--out-dir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    (found,) = dist.glob("*.tar.gz")
    return found


class Installation:
    """An environment that holds the wheel and its dependencies, and a folder far from the checkout to run in.

    :ivar interpreter: its Python.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder = folder
        self._python = folder / "env/bin/python"
        run(UV, "venv", "--python", sys.executable, folder / "env", cwd=folder)
        run(UV, "pip", "install", "--python", self._python, "--constraint", PINS, wheel, cwd=folder)

    @property
    def interpreter(self) -> Path:
        return self._python

    def add(self, requirement: str) -> None:
        """Install more, such as ``pytest`` or ``gpuspawner[test]``; what is installed stays as it is."""
        run(UV, "pip", "install", "--python", self._python, "--constraint", PINS, requirement, cwd=self._folder)

    def python(self, script: str) -> str:
        """Run ``script`` isolated from the environment and the current folder; a warning about our own code fails."""
        options: Sequence[str] = ("-I", "-W", "error:::gpuspawner")
        return run(self._python, *options, "-c", textwrap.dedent(script), cwd=self._folder)


@pytest.fixture(scope="session")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("elsewhere"), wheel)
