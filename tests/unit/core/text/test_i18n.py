from __future__ import annotations

import contextvars
from gettext import NullTranslations

import pytest

from gpuspawner.core.text.i18n import (
    ENGLISH,
    Language,
    LazyText,
    get_language,
    gettext,
    gettext_lazy,
    ngettext,
    set_language,
    translate_now,
    use_language,
)

TEXTS = {"No {gpu}.": "Keine {gpu}.", "a free {gpu}": "eine freie {gpu}", "{free} left": "{frei} übrig", "": "header"}


class German(NullTranslations):
    """A few messages, one of them with a slip."""

    def gettext(self, message: str) -> str:
        return TEXTS.get(message, message)

    def ngettext(self, one: str, many: str, number: int) -> str:
        return (
            ("{number} Platz", "{number} Plätze")[number != 1]
            if one == "{number} place"
            else super().ngettext(one, many, number)
        )


GERMAN = Language(tag="de", translations=German())


def test_english_is_spoken_at_first():
    assert (get_language(), gettext("No {gpu}.", gpu="A100"), gettext("100 % {sure}")) == (
        ENGLISH,
        "No A100.",
        "100 % {sure}",
    )


def test_a_language_is_spoken_for_a_while():
    with use_language(GERMAN):
        assert (get_language().tag, gettext("No {gpu}.", gpu="A100")) == ("de", "Keine A100.")
    assert gettext("No {gpu}.", gpu="A100") == "No A100."


def test_each_request_has_a_language_of_its_own():
    request = contextvars.copy_context()
    request.run(set_language, GERMAN)
    assert (request.run(get_language), get_language()) == (GERMAN, ENGLISH)


@pytest.mark.parametrize(("number", "english", "german"), [(1, "1 place", "1 Platz"), (0, "0 places", "0 Plätze")])
def test_a_number_has_its_plural_form(number: int, english: str, german: str):
    assert ngettext("{number} place", "{number} places", number=number) == english
    with use_language(GERMAN):
        assert ngettext("{number} place", "{number} places", number=number) == german


def test_a_number_may_be_written_another_way():
    assert ngettext("{amount} CPU", "{amount} CPUs", number=1, amount="0.5") == "0.5 CPU"


def test_braces_in_what_is_filled_in_mean_nothing():
    assert gettext("No {gpu}.", gpu="{__class__}{0}") == "No {__class__}{0}."


def test_a_slip_in_a_catalogue_shows_the_english_text():
    with use_language(GERMAN):
        assert gettext("{free} left", free=3) == "3 left"


def test_nothing_is_said_in_no_language():
    with use_language(GERMAN):
        assert (gettext(""), translate_now("")) == ("", "")


def test_a_lazy_text_is_english_until_it_is_translated():
    text = gettext_lazy("No {gpu}.", gpu=gettext_lazy("a free {gpu}", gpu="A100"))
    assert (text, isinstance(text, LazyText), translate_now(text)) == ("No a free A100.", True, "No a free A100.")
    with use_language(GERMAN):
        assert (text, translate_now(text)) == ("No a free A100.", "Keine eine freie A100.")
        assert gettext("No {gpu}.", gpu=gettext_lazy("a free {gpu}", gpu="T4")) == "Keine eine freie T4."


def test_text_that_an_admin_wrote_is_left_as_it_is():
    with use_language(GERMAN):
        assert translate_now("No {gpu}.") == "No {gpu}."
