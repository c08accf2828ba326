"""Finds gpuspawner's data folders, in an installed package or in a Git checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Return the path of a data folder of gpuspawner.

    :param name: ``templates``, ``locale`` or ``helm-values``.
    :raises FileNotFoundError: gpuspawner is installed without that folder.
    """
    inside = _PACKAGE / name
    if inside.is_dir():
        return inside
    beside = _PACKAGE.parent / name
    if beside.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file():
        return beside
    message = f"gpuspawner is installed without its folder {name!r}"
    raise FileNotFoundError(message)
