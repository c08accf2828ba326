"""Common parts of the tests of helm-values."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster import build

Helm = Callable[..., str]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Return a function that runs Helm, which has to succeed, and returns what it says."""
    program = build.ensure(["helm"]) / "helm"
    home = tmp_path_factory.mktemp("helm")
    # Nothing of the machine's own: no plug-ins, no repositories, no cluster.
    environment = {"HOME": str(home), "PATH": str(Path(shutil.which("sh") or "/bin/sh").parent)}

    def run(*arguments: str | Path) -> str:
        command = [str(program), *map(str, arguments)]
        answer = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            pytest.fail(f"{' '.join(command)}\n{answer.stdout}{answer.stderr}", pytrace=False)
        return answer.stdout

    return run


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """Return a chart that shows the values it is given."""
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    # Helm's linter asks for an icon.
    (folder / "Chart.yaml").write_text(
        "apiVersion: v2\nname: shown\nversion: 1.0.0\nicon: https://example.org/icon.svg\n"
    )
    (folder / "values.yaml").write_text("{}\n")
    shown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown}\ndata:\n  values: |\n"
    shown += "{{ toYaml .Values | indent 4 }}\n"
    (folder / "templates/shown.yaml").write_text(shown)
    return folder
