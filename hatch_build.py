"""Compiles the catalogues of messages when the package is built or installed, for gettext reads no ``.po`` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOCALE = "gpuspawner/locale"


class Catalogues(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling finds it here by itself."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile what is there; the wheel takes it with it (``artifacts`` in pyproject.toml)."""
        del version, build_data
        compile_all(Path(self.root) / LOCALE)


def compile_all(folder: Path) -> None:
    """Write ``de.mo`` beside each ``de.po``, without what a translator marked as in doubt."""
    for source in sorted(folder.glob("*.po")):
        with source.open("rb") as file:
            catalogue = read_po(file)
        unfinished = source.with_suffix(".mo.new")
        with unfinished.open("wb") as file:
            write_mo(file, catalogue, use_fuzzy=False)
        unfinished.replace(source.with_suffix(".mo"))  # a hub that runs from here reads all of a file, or the old one
