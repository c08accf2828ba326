"""Print the versions of gpuspawner and of the packages that it depends on.

examples:
  gpuspawner version
  gpuspawner version --output json
"""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TextIO

from gpuspawner import __version__
from gpuspawner.cli.common.output import OK, add_output_argument, write_result

_PACKAGES = {"jupyterhub": "jupyterhub", "kubespawner": "jupyterhub-kubespawner", "kubernetes_asyncio": ""}
"""Name of a Python module → name of its package on PyPI, empty if both names are equal."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpuspawner version``."""
    add_output_argument(parser)


def run(arguments: argparse.Namespace, *, out: TextIO, notes: TextIO) -> int:
    """Write the versions and return the exit code."""
    found = collect_versions()
    longest = max(map(len, found))
    write_result(
        found,
        output=arguments.output,
        out=out,
        table=lambda _: (f"{name.ljust(longest)}  {number or 'not installed'}" for name, number in found.items()),
    )
    return OK


def collect_versions() -> dict[str, str | None]:
    """Return package → version, with None for a package that is not installed."""
    found: dict[str, str | None] = {"gpuspawner": __version__, "python": platform.python_version()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = version(package or name)
        except PackageNotFoundError:
            found[name] = None
    return found
