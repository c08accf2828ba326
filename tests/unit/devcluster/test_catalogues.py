from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages import Catalog
from babel.messages.mofile import read_mo

from devcluster import catalogues
from devcluster.catalogues import LOCALE, missing, read, template, update
from gpuspawner.hub.request.languages import load_languages

PLACEHOLDERS = re.compile(r"\{\w+\}")
PATHS = sorted(LOCALE.glob("*.po"))
every_language = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def forms(text: str | tuple[str, ...] | list[str]) -> list[str]:
    return [text] if isinstance(text, str) else list(text)


def texts(catalogue: Catalog) -> dict[object, list[str]]:
    return {tuple(forms(message.id)): forms(message.string) for message in catalogue if message.id}


def keys(catalogue: Catalog) -> set[str | tuple[str, ...]]:
    return {message.id for message in catalogue if message.id}


@every_language
def test_every_message_is_translated(path: Path):
    assert missing(read(path)) == []


@every_language
def test_the_messages_are_those_of_the_code(path: Path):
    """Where this fails, ``make catalogues`` mends it."""
    assert keys(read(path)) == keys(template())


@every_language
def test_a_translation_fills_in_the_same_as_the_message(path: Path):
    differing = {
        message.id: message.string
        for message in read(path)
        if message.id
        for text in forms(message.string)
        # A singular form may say "the only one" instead of a number.
        if set(PLACEHOLDERS.findall(text)) - {"{number}"}
        != {name for each in forms(message.id) for name in PLACEHOLDERS.findall(each)} - {"{number}"}
    }
    assert differing == {}


@every_language
def test_a_message_has_all_plural_forms(path: Path):
    catalogue = read(path)
    counted = [message for message in catalogue if isinstance(message.id, tuple)]
    assert [len(forms(message.string)) for message in counted] == [catalogue.num_plurals] * len(counted)


@every_language
def test_users_see_the_text_of_the_file(path: Path):
    """Where this fails, the package was installed before the file was changed: ``make check`` installs it again."""
    with path.with_suffix(".mo").open("rb") as file:
        built = read_mo(file)
    assert texts(built) == texts(read(path))


def test_each_file_is_a_language_that_is_spoken():
    assert ["en", *(path.stem.replace("_", "-") for path in PATHS)] == [each.tag for each in load_languages().values()]


def test_a_new_language_is_one_file(tmp_path: Path):
    path = tmp_path / "fr.po"
    assert (len(update(path)), keys(read(path))) == (len(template()), keys(template()))


def test_an_update_keeps_translations_and_drops_unused_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def say(*messages: str) -> None:
        said = Catalog()
        for each in messages:
            said.add(each)
        monkeypatch.setattr(catalogues, "template", lambda: said)

    path = tmp_path / "de.po"
    say("Yes", "No")
    update(path)
    path.write_text(path.read_text().replace('msgid "Yes"\nmsgstr ""', 'msgid "Yes"\nmsgstr "Ja"'))
    say("Yes", "Maybe")
    assert update(path) == ["Maybe"]
    assert texts(read(path)) == {("Maybe",): [""], ("Yes",): ["Ja"]}
