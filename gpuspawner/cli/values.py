"""Helm values as an admin wrote them, in one file or several, merged as Helm merges them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuspawner.core.errors import Problem, SettingsError
from gpuspawner.settings.merging import over

SECTION = ("hub", "config", "GPUSpawner")
"""Where the settings are in the values of zero-to-jupyterhub."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What all files together say.

    :param merged: the values as the chart gets them.
    """

    merged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The section of gpuspawner, empty where there is none."""
        found: Any = self.merged
        for key in SECTION:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}


def add_values(parser: argparse.ArgumentParser) -> None:
    """Add ``--values`` to a command."""
    parser.add_argument(
        "-f",
        "--values",
        metavar="FILE",
        action="append",
        default=[],
        help="Helm values, as for helm upgrade; several are merged in this order; - is standard input",
    )


def load(files: Sequence[str]) -> Values:
    """Read values files and merge them in their order.

    :raises SettingsError: one is no YAML, or no mapping.
    :raises OSError: one cannot be read.
    """
    merged: dict[str, Any] = {}
    for file in files:
        merged = over(merged, _read(file))
    return Values(merged=merged)


def _read(file: str) -> Mapping[str, Any]:
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(Problem(field=file, code="bad_value", message=f"is no YAML: {error}")) from error
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise SettingsError(Problem(field=file, code="wrong_type", message="must hold a mapping"))
    return document
