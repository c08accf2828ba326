from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.preparation import system


def program(folder: Path, name: str, *, prints: str = "") -> Path:
    """Put a small script on the PATH that stands in for a tool."""
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{prints}'\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be the only folder that PATH names, besides those of the system."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("prints", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26, 8)), ("v20.20.2", (20, 20, 2)), ("v22.1", (22, 1)), ("devel", None)],
)
def test_the_version_is_the_first_dotted_number(path: Path, prints: str, version: tuple[int, ...] | None):
    program(path, "tool", prints=prints)
    assert system.version_of("tool", "version") == version


def test_a_program_that_is_not_there_has_no_version(path: Path):
    assert system.version_of("no-such-tool") is None


def test_a_package_is_installed_when_its_program_is_there(path: Path):
    package = system.Package(name="some-package", programs=("some-program",))
    before = package.is_installed()
    program(path, "some-program")
    assert (before, package.is_installed()) == (False, True)


def test_a_dynamically_linked_program_does_not_do_where_a_static_one_is_needed(path: Path):
    (path / "box").write_bytes(b"\x7fELF...../lib64/ld-linux-x86-64.so.2\0")
    (path / "box").chmod(0o755)
    found = [system.Package(name="box", programs=("box",), static=static).is_installed() for static in (False, True)]
    assert found == [True, False]


def test_room_is_measured_where_a_folder_would_be_created(tmp_path: Path):
    assert system.free_bytes(tmp_path / "not" / "there") == pytest.approx(system.free_bytes(tmp_path), rel=0.05)
