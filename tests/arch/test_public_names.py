"""The package's front door: what `gpuspawner` offers is what it says it offers."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import gpuspawner


def test_all_names_everything_public_and_nothing_else():
    offered = {
        name
        for name in dir(gpuspawner)
        if not name.startswith("_") and name != "annotations" and not inspect.ismodule(getattr(gpuspawner, name))
    }
    assert offered == {name for name in gpuspawner.__all__ if not name.startswith("_")}


def test_every_public_name_is_documented():
    undocumented = [
        name for name in gpuspawner.__all__ if name != "__version__" and not inspect.getdoc(getattr(gpuspawner, name))
    ]
    assert undocumented == []


def test_the_version_is_that_of_the_project(root: Path):
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert (gpuspawner.__version__, importlib.metadata.version("gpuspawner")) == (declared, declared)


def test_the_entry_point_is_the_spawner():
    (entry,) = importlib.metadata.entry_points(group="jupyterhub.spawners", name="gpu")
    assert entry.load() is gpuspawner.GPUSpawner


def test_importing_the_package_alone_loads_neither_jupyterhub_nor_pydantic():
    script = "import sys, gpuspawner; print(sorted({'jupyterhub', 'kubespawner', 'pydantic'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
