"""The pages that are generated, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docsite import commands, configuration, metrics, rest_api, rights, user_options

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration.page,
    "commands.md": commands.page,
    "metrics.md": metrics.page,
    "rights.md": rights.page,
    "rest-api.md": rest_api.page,
    "user-options.schema.json": user_options.schema_text,
    "openapi.json": rest_api.openapi_text,
}
"""File in docs/reference → what makes its text."""


def outdated() -> list[Path]:
    """List the pages whose file is missing or says something else."""
    return [
        FOLDER / name
        for name, make in PAGES.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != make()
    ]


def write() -> list[Path]:
    """Write the pages that are outdated, and return them."""
    found = outdated()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in found:
        path.write_text(PAGES[path.name](), encoding="utf-8")
    return found
