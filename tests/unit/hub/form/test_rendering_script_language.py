from __future__ import annotations

import re
from gettext import NullTranslations
from pathlib import Path

import pytest

from gpuspawner._resources import data_dir
from gpuspawner.core.text.i18n import Language, use_language
from gpuspawner.hub.form.rendering import translate_script

SCRIPTS = sorted(data_dir("templates").glob("*.js"))
# Two words in a row, or one with a capital that is nothing but a word: selectors and names have neither.
WORDS = re.compile(r"[A-Za-z]+ [A-Za-z]+|^[A-Z][a-z]+[.…]?$")
COMMENTS = re.compile(r"/\*.*?\*/|(?:^|\s)//[^\n]*", re.DOTALL)
TEXTS = re.compile(r'"([^"\n]*)"|`([^`]*)`|\'([^\'\n]*)\'')


class Polish(NullTranslations):
    """Three plural forms, and texts that would end a script if they could."""

    def info(self) -> dict[str, str]:
        rule = "(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)"
        return {"plural-forms": f"nplurals=3; plural={rule};"}

    def plural(self, number: int) -> int:
        few = 2 <= number % 10 <= 4 and not 10 <= number % 100 < 20
        return 0 if number == 1 else 1 if few else 2

    def gettext(self, message: str) -> str:
        return {"Starts now.": 'Od "zaraz" $& \\1', "No": "</script>"}.get(message, message)

    def ngettext(self, one: str, many: str, number: int) -> str:
        return ("{number} dzień", "{number} dni", "{number} dnia")[self.plural(number)]


POLISH = Language(tag="pl", translations=Polish())


def test_an_english_script_is_sent_as_it_is():
    assert translate_script('say(t("Starts now."));') == 'say(t("Starts now."));'


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ('told("now", t("Starts now."))', r'told("now", t("Od \"zaraz\" $& \\1"))'),
        ('t("Unknown word", { a })', 't("Unknown word", { a })'),
        ('tn("{number} day", "{number} days", n)', 'tn(["{number} dzień","{number} dni","{number} dnia"],0, n)'),
        ('tn("{number} day","{number} days",n)', 'tn(["{number} dzień","{number} dni","{number} dnia"],0,n)'),
        ('const cut = set("Starts now.")', 'const cut = set("Starts now.")'),
        (r't("it\'s \x41")', r't("it\'s \x41")'),
        (r'tn("\x41", "b", n)', r'tn("\x41", "b", n)'),
        (
            "for (let n = 0; n != 10; n++) if (column != 1) go();",
            "for (let n = 0; n != 10; n++) if (column != 1) go();",
        ),
        ("Number(n != 1)", "Number((n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2))"),
        ("Number(n!=1)", "Number((n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2))"),
    ],
)
def test_messages_and_plurals_are_those_of_the_language(source: str, sent: str):
    with use_language(POLISH):
        assert translate_script(source) == sent


class French(Polish):
    """A rule that tells millions apart, as some tools write it, in a catalogue with fewer forms."""

    def info(self) -> dict[str, str]:
        return {"plural-forms": "nplurals=3; plural=(n <= 1 ? 0 : n != 0 && n % 1000000 == 0 ? 1 : 2);"}

    def plural(self, number: int) -> int:
        return 0 if number <= 1 else 1 if number % 1_000_000 == 0 else 2

    def ngettext(self, one: str, many: str, number: int) -> str:
        return ("jour", "de jours", "jours")[self.plural(number)]


class Malicious(Polish):
    def info(self) -> dict[str, str]:
        return {"plural-forms": "nplurals=2; plural=alert(1)||0; plural=(n != 1);"}


def test_each_form_that_a_rule_may_ask_for_is_there():
    with use_language(Language(tag="fr", translations=French())):
        assert translate_script('tn("a", "b", n)') == 'tn(["jour","de jours","jours"],0, n)'


def test_a_rule_that_is_more_than_arithmetic_is_left_out():
    with use_language(Language(tag="xx", translations=Malicious())):
        assert translate_script('Number(n != 1); tn("a", "b", n)') == 'Number(n != 1); tn("a", "b", n)'


def test_each_script_has_one_rule_for_plurals_at_most():
    found = [len(re.findall(r"n ?!= ?1", path.read_text())) for path in SCRIPTS]
    assert sorted(found) == [0] * (len(SCRIPTS) - 1) + [1]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_word_of_a_script_is_in_a_message(path: Path):
    code = re.sub(r"\bt\(\"[^\"]*\"|\btn\(\"[^\"]*\", ?\"[^\"]*\"", "", COMMENTS.sub("", path.read_text()))
    texts = ["".join(found) for found in TEXTS.findall(code)]
    found = [text for text in texts if WORDS.search(text) and not text.startswith((".", "#"))]
    assert found == (["Start"] if path.name == "form.js" else [])  # the hub's own word, which is looked for
