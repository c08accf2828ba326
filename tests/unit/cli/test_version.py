from __future__ import annotations

import importlib.metadata
import json
import platform

import pytest

from gpuspawner import __version__
from gpuspawner.cli.main import main
from gpuspawner.cli.version import collect_versions


def test_the_versions_are_those_of_what_runs():
    assert collect_versions() == {
        "gpuspawner": __version__,
        "python": platform.python_version(),
        "jupyterhub": importlib.metadata.version("jupyterhub"),
        "kubespawner": importlib.metadata.version("jupyterhub-kubespawner"),
        "kubernetes_asyncio": importlib.metadata.version("kubernetes_asyncio"),
    }


def test_humans_and_programs_can_read_them(capsys: pytest.CaptureFixture[str]):
    assert main(["version"]) == 0
    assert f"gpuspawner          {__version__}" in capsys.readouterr().out.splitlines()
    assert main(["version", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == collect_versions()
