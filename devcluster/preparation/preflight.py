"""Programs that only the user can install: find all missing ones before anything is started or changed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from devcluster.preparation import system
from devcluster.preparation.needs import Needs

OLDEST_GO = (1, 26)
OLDEST_NODE = (20,)
# Measured: Go's module and build caches take 5.1 GB for a first build, the binaries 0.5 GB.
BUILD_BYTES = 7 * 10**9
GO_HELP = "download it from https://go.dev/dl and put its bin folder on PATH"
NODE_HELP = "apt-get install nodejs npm, or see https://nodejs.org/en/download"
OWN_CLUSTER_HELP = "or use a cluster of your own: make demo CONTEXT=<name in your kubeconfig>"


def missing(needs: Needs, *, binaries_to_build: bool, packages: tuple[system.Package, ...]) -> list[str]:
    """List what is missing, one line each with how to get it; empty when set-up can start.

    :param binaries_to_build: whether a Kubernetes binary has to be compiled; when all are cached, Go is not needed.
    :param packages: Debian packages that set-up has to install.
    """
    lines = [*_python(), *(_node() if needs.proxy else ())]
    if needs.cluster:
        lines += _machine()
    if packages:
        lines += _packages(packages)
    if binaries_to_build:
        lines += _go()
    return lines


def _python() -> Iterator[str]:
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        yield f"Python's venv module ({sys.executable}): apt-get install python3-venv"


def _node() -> Iterator[str]:
    found = system.version_of("node", "--version")
    if found is None or found < OLDEST_NODE:
        yield f"Node.js {_text(OLDEST_NODE)} or newer (found: {_text(found)}): {NODE_HELP}"
    elif system.which("npm") is None:
        yield f"npm: {NODE_HELP}"


def _machine() -> Iterator[str]:
    if sys.platform != "linux":
        yield f"Linux (this is {sys.platform}): a local Kubernetes node needs its kernel; {OWN_CLUSTER_HELP}"
    elif os.geteuid() != 0:
        yield f"root: a Kubernetes node makes cgroups, mounts and network interfaces; run with sudo, {OWN_CLUSTER_HELP}"


def _packages(packages: tuple[system.Package, ...]) -> Iterator[str]:
    names = " ".join(package.name for package in packages)
    if system.which("apt-get") is None:
        yield f"apt-get, to install {names}: install these with your system's package manager, then run this again"
    elif os.geteuid() != 0:
        yield f"root, to run: apt-get install {names}"


def _go() -> Iterator[str]:
    found = system.version_of("go", "version")
    if found is None or found < OLDEST_GO:
        yield f"Go {_text(OLDEST_GO)} or newer (found: {_text(found)}): {GO_HELP}"
    caches = Path.home() / ".cache"
    if (free := system.free_bytes(caches)) < BUILD_BYTES:
        yield f"room in {caches}: {free / 1e9:.1f} GB free, a build of Kubernetes takes {BUILD_BYTES / 1e9:.0f} GB"


def _text(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version)) if version else "none"
