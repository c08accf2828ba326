"""Writes a new version into ``pyproject.toml``, and into the examples that name a wheel or an image of it.

    .venv/bin/python -m docsite.version 0.2.0

``pyproject.toml`` is the place of the version: ``gpuspawner.__version__`` is read from the installed package, and
``tests/packaging`` compares the examples with it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_NUMBER = r"\d+\.\d+\.\d+(?:rc\d+)?"
_PROJECT = re.compile(rf'(?m)^(version = ")({_NUMBER})(?=")')
_EXAMPLE = re.compile(rf"(gpuspawner-|(?:k8s-hub-gpuspawner:|\btag: )\d+\.\d+\.\d+-)({_NUMBER})(?=\b)")
"""The file of a wheel or source archive, and the tag of an image: the chart's version, a hyphen, and ours."""


def read_version(root: Path = ROOT) -> str:
    """Return the version in ``pyproject.toml``.

    :param root: folder of the checkout.
    """
    found: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return found


def list_examples(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the versions that examples name, by file.

    :param root: folder of the checkout.
    """
    found = {
        str(path.relative_to(root)): [match[2] for match in _EXAMPLE.finditer(path.read_text(encoding="utf-8"))]
        for path in _list_files(root)
    }
    return {name: versions for name, versions in found.items() if versions}


def write_version(version: str, root: Path = ROOT) -> None:
    """Write a version into ``pyproject.toml`` and into all examples.

    :param version: the new one, such as ``0.2.0`` or ``0.2.0rc1``.
    :param root: folder of the checkout.
    :raises ValueError: the text is no such version.
    """
    if not re.fullmatch(_NUMBER, version):
        raise ValueError(f"{version} is no version such as 0.2.0 or 0.2.0rc1")
    for path in (root / "pyproject.toml", *_list_files(root)):
        pattern = _PROJECT if path.name == "pyproject.toml" else _EXAMPLE
        text = path.read_text(encoding="utf-8")
        path.write_text(pattern.sub(lambda match: f"{match[1]}{version}", text), encoding="utf-8")


def _list_files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in ("README.md", "RELEASE.md") if (root / name).is_file())
    yield from (path for path in sorted((root / "docs").rglob("*.md")))
    yield from (path for path in sorted((root / "helm-values").iterdir()) if path.suffix in {"", ".yaml"})


def main(arguments: Sequence[str]) -> int:
    """Write the version that the command line names, and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m docsite.version", description=__doc__)
    parser.add_argument("version")
    write_version(parser.parse_args(arguments).version)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
