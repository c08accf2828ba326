"""Brings the catalogues of messages up to date with the code: ``python -m devcluster.catalogues`` [LANGUAGE ...].

A new message is added without a translation, and an unused one is removed; a language that is named
and has no file yet gets one with all messages. ``make catalogues`` calls this; tests ask it for missing messages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from babel import Locale
from babel.messages import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "gpuspawner" / "locale"

_METHODS = {
    "gpuspawner": [("**.py", "python")],
    "templates": [("**.html", "jinja2"), ("**.js", "javascript")],
}
_SHOWN = {"gettext": None, "gettext_lazy": None, "translate": None, "_": None, "t": None}
_COUNTED = {"ngettext": (1, 2), "tn": (1, 2)}
_OPTIONS = {"**.html": {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}}
_WIDTH = 120


def template() -> Catalog:
    """Return all messages that users may see, without translations."""
    catalogue = Catalog(project="gpuspawner", charset="utf-8")
    for folder, methods in _METHODS.items():
        found = extract_from_dir(
            ROOT / folder,
            method_map=methods,
            options_map=_OPTIONS,
            keywords={**_SHOWN, **_COUNTED},
            comment_tags=("Translators:",),
            strip_comment_tags=True,
        )
        for file, line, message, comments, context in found:
            catalogue.add(message, locations=[(f"{folder}/{file}", line)], auto_comments=comments, context=context)
    return catalogue


def read(path: Path) -> Catalog:
    """Return the catalogue of one language."""
    with path.open("rb") as file:
        return read_po(file, locale=path.stem)


def update(path: Path) -> list[str]:
    """Bring one language up to date, and return the messages that have no translation."""
    catalogue = read(path) if path.exists() else _new(path.stem)
    made, changed = catalogue.creation_date, catalogue.revision_date
    catalogue.update(template(), no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.creation_date, catalogue.revision_date = made, changed  # what changed is what git says
    catalogue.header_comment = f"# {catalogue.locale.english_name}: see CONTRIBUTING.md for how to translate."
    with path.open("wb") as file:
        write_po(file, catalogue, width=_WIDTH, include_lineno=False, sort_output=True, ignore_obsolete=True)
    return missing(catalogue)


def missing(catalogue: Catalog) -> list[str]:
    """Return the messages that have no translation, or one that is in doubt."""
    messages = [message for message in catalogue if message.id]
    return [_one(message.id) for message in messages if message.fuzzy or not all(_forms(message.string))]


def main(arguments: Sequence[str]) -> int:
    """Update all languages and those that are named."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.catalogues", description=__doc__)
    parser.add_argument("languages", nargs="*", help="new languages to begin, such as fr")
    names = parser.parse_args(arguments).languages
    for path in sorted({*LOCALE.glob("*.po"), *(LOCALE / f"{name}.po" for name in names)}):
        untranslated = update(path)
        _say(f"{path.stem}: {len(untranslated) or 'nothing'} to translate")
        for message in untranslated:
            _say(f"  {message}")
    return 0


def _new(name: str) -> Catalog:
    return Catalog(
        locale=Locale.parse(name),
        project="gpuspawner",
        version="0.1",
        msgid_bugs_address="see CONTRIBUTING.md",
        last_translator="gpuspawner contributors",
        language_team="gpuspawner contributors",
        charset="utf-8",
        fuzzy=False,
    )


def _one(message_id: str | Iterable[str]) -> str:
    return message_id if isinstance(message_id, str) else next(iter(message_id))


def _forms(text: str | Iterable[str] | None) -> list[str]:
    return [text] if isinstance(text, str) else list(text or ("",))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
