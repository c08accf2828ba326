"""Compiles the catalogues of messages, because gettext reads no ``.po`` files, and minifies the wheel's CSS and JS.

Runs when the package is built or installed.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rcssmin
import rjsmin
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOCALE = "gpuspawner/locale"
TEMPLATES = "templates"
TEMPLATES_IN_WHEEL = "gpuspawner/templates"


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling finds it here by itself."""

    PLUGIN_NAME = "custom"

    _minified: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the catalogues in place (``artifacts`` in pyproject.toml) and put minified files into a wheel.

        The source archive and an editable installation keep the files as they are.

        :param version: ``standard`` or ``editable``.
        :param build_data: hatchling's settings of this build; ``force_include`` maps a file to its path in the wheel.
        """
        compile_all(Path(self.root) / LOCALE)
        if self.target_name != "wheel" or version == "editable":
            return
        self._minified = TemporaryDirectory()
        for file in minify_all(Path(self.root) / TEMPLATES, Path(self._minified.name)):
            build_data["force_include"][str(file)] = f"{TEMPLATES_IN_WHEEL}/{file.name}"

    def finalize(self, *_: Any) -> None:
        """Remove the minified files, which are in the wheel now."""
        if self._minified is not None:
            self._minified.cleanup()


def compile_all(folder: Path) -> None:
    """Write ``de.mo`` beside each ``de.po``, without what a translator marked as in doubt."""
    for source in sorted(folder.glob("*.po")):
        with source.open("rb") as file:
            catalogue = read_po(file)
        unfinished = source.with_suffix(".mo.new")
        with unfinished.open("wb") as file:
            write_mo(file, catalogue, use_fuzzy=False)
        unfinished.replace(source.with_suffix(".mo"))  # a hub that runs from here reads all of a file, or the old one


def minify_all(source: Path, target: Path) -> list[Path]:
    """Write a minified copy of each style sheet and script of a folder, and return the copies.

    :param source: folder of ``.css`` and ``.js`` files; its sub-folders are not read.
    :param target: folder for the copies, which have the same names; it must exist.
    """
    minifiers = {".css": rcssmin.cssmin, ".js": rjsmin.jsmin}
    copies = []
    for file in sorted(source.iterdir()):
        if minify := minifiers.get(file.suffix):
            copy = target / file.name
            # The end of the line stays: the page holds the files one after the other.
            copy.write_text(f"{minify(file.read_text(encoding='utf-8'))}\n", encoding="utf-8")
            copies.append(copy)
    return copies
