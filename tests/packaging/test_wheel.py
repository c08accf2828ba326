"""The wheel holds the package with its templates, Helm values, data and compiled messages, and nothing else."""

from __future__ import annotations

import email
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Folder of the repository → where it is in the wheel.
PACKED = {"gpuspawner": "gpuspawner", "templates": "gpuspawner/templates", "helm-values": "gpuspawner/helm-values"}


def files_of_git(folder: str) -> set[str]:
    """Name the files of a folder that git tracks, or would, relative to it."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = (name for name in listing.split("\0") if name and (ROOT / name).is_file())
    return {name.removeprefix(f"{folder}/") for name in names}


def files_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_the_wheel_holds_what_git_tracks_and_the_compiled_messages(wheel: Path):
    tracked = {f"{target}/{name}" for folder, target in PACKED.items() for name in files_of_git(folder)}
    expected = tracked | {f"{name.removesuffix('.po')}.mo" for name in tracked if name.endswith(".po")}
    assert {name for name in files_of_wheel(wheel) if ".dist-info/" not in name} == expected


@pytest.mark.parametrize(
    "name",
    [
        "gpuspawner/templates/form.html",
        "gpuspawner/templates/form.css",
        "gpuspawner/templates/form.js",
        "gpuspawner/helm-values/Dockerfile",
        "gpuspawner/helm-values/gpuspawner.yaml",
        "gpuspawner/helm-values/rbac.yaml",
        "gpuspawner/helm-values/without-an-image.yaml",
        "gpuspawner/data/accelerators.json",
        "gpuspawner/locale/de.mo",
        "gpuspawner/py.typed",
    ],
)
def test_the_wheel_holds_what_the_package_reads(wheel: Path, name: str):
    assert name in files_of_wheel(wheel)


def test_the_wheel_carries_its_licence(wheel: Path):
    assert [name for name in files_of_wheel(wheel) if name.endswith("/licenses/LICENSE")] != []


def test_a_wheel_made_from_the_source_archive_is_the_same(
    wheel: Path, sdist: Path, tmp_path: Path, build_wheel: Callable[[Path, Path], Path]
):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert files_of_wheel(build_wheel(source, tmp_path / "dist")) == files_of_wheel(wheel)


def test_the_readme_is_the_page_of_the_package(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = email.message_from_string(archive.read(name).decode())
    assert metadata.get_payload() == (ROOT / "README.md").read_text()
