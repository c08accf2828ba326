from __future__ import annotations

import os
from pathlib import Path

import pytest

from devcluster.preparation import preflight
from devcluster.preparation.needs import PURPOSES, Needs, of
from devcluster.preparation.system import Package


def tool(folder: Path, name: str, version: str) -> None:
    """Put a script on the PATH that says it is ``version``."""
    (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be the only folder that PATH names, on a machine of root's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def missing(needs: Needs, *, build: bool = False, packages: tuple[Package, ...] = ()) -> list[str]:
    return preflight.missing(needs, binaries_to_build=build, packages=packages)


def test_python_alone_is_enough_to_check_the_code(path: Path):
    assert missing(PURPOSES["check"]) == []


def test_everything_that_is_missing_is_named_at_once(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lines = missing(PURPOSES["demo"], build=True, packages=(Package(name="runc", programs=("no-such-program",)),))
    assert [line.split()[0].rstrip(":,") for line in lines] == ["Node.js", "root", "apt-get", "Go"]


def test_each_line_says_how_to_get_what_is_missing(path: Path):
    (line,) = missing(Needs(proxy=True))
    assert line.startswith("Node.js 20 or newer (found: none): apt-get install nodejs npm")


def test_an_old_go_is_named_with_the_version_found(path: Path):
    tool(path, "go", "go1.19.8")
    assert missing(Needs(), build=True)[0].startswith("Go 1.26 or newer (found: 1.19.8): download it from ")


def test_node_without_npm_does_not_do(path: Path):
    tool(path, "node", "v22.0.0")
    assert [line.partition(":")[0] for line in missing(Needs(proxy=True))] == ["npm"]


def test_without_root_the_way_to_an_own_cluster_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (line,) = missing(Needs(cluster=True))
    assert "make demo CONTEXT=" in line


def test_without_apt_the_packages_to_install_are_named(path: Path):
    (line,) = missing(
        Needs(), packages=(Package(name="runc", programs=("runc",)), Package(name="chromium", programs=("c",)))
    )
    assert (
        line
        == "apt-get, to install runc chromium: install these with your system's package manager, then run this again"
    )


def test_a_cluster_of_the_users_own_needs_neither_root_nor_go(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tool(path, "node", "v20.0.0")
    tool(path, "npm", "11.0.0")
    assert missing(of("demo", context="kind-kind")) == []
