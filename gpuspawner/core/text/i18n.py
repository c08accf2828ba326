"""The language of texts for people: gettext's catalogue, the same one for as long as a request is answered.

A text is written in English where it is made, whole, with names in braces for what is filled in, so that translations
may put it into any order. Which language is spoken is the request's: each request of tornado runs in a context of its
own. Files are read elsewhere (:mod:`gpuspawner.hub.request.languages`); without any, everybody is spoken to in English.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from gettext import NullTranslations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """A language that people can be spoken to in.

    :param tag: as in HTML's ``lang`` (BCP 47): ``de``, ``zh-CN``.
    """

    tag: str
    translations: NullTranslations


ENGLISH = Language(tag="en", translations=NullTranslations())
"""The language that all texts are written in."""

_current_language: ContextVar[Language] = ContextVar("gpuspawner_language", default=ENGLISH)


def get_language() -> Language:
    """Return the language that texts are made in now."""
    return _current_language.get()


def set_language(language: Language) -> None:
    """Have texts made in a language for the rest of this context."""
    _current_language.set(language)


@contextmanager
def use_language(language: Language) -> Iterator[None]:
    """Have texts made in a language for as long as this lasts: for what is kept, and read by others."""
    token = _current_language.set(language)
    try:
        yield
    finally:
        _current_language.reset(token)


def gettext(message: str, /, **values: object) -> str:
    """Return a text in the language spoken now.

    :param message: the English one, with names in braces.
    :param values: what is filled in for them, as :func:`translate_now`; never looked at for braces of its own.
    """
    # To gettext itself an empty text is the catalogue's header.
    return (
        _fill_in(_current_language.get().translations.gettext(message), english=message, values=values)
        if message
        else ""
    )


def ngettext(one: str, many: str, /, *, number: int, **values: object) -> str:
    """Return the text for a number of things, in the plural form that the language has for it.

    :param one: the English one for 1.
    :param many: the English one for all other numbers.
    :param number: 0 or more, filled in for ``{number}``.
    """
    catalogue = _current_language.get().translations
    english = one if number == 1 else many
    return _fill_in(catalogue.ngettext(one, many, number), english=english, values={"number": number, **values})


class LazyText(str):
    """An English text that knows how to be said in another language, for what is kept longer than a request."""

    __slots__ = ("message", "values")

    message: str
    values: dict[str, object]


def gettext_lazy(message: str, /, **values: object) -> LazyText:
    """Return a text in English that :func:`translate_now` can translate later."""
    text = LazyText(message.format(**values) if values else message)
    text.message, text.values = message, values
    return text


def translate_now(text: str) -> str:
    """Return a text in the language spoken now, where it is one of :func:`gettext_lazy`; any other as it is."""
    return gettext(text.message, **text.values) if isinstance(text, LazyText) else text


def _fill_in(translated: str, *, english: str, values: dict[str, object]) -> str:
    if not values:
        return translated
    filled_in = {name: translate_now(value) if isinstance(value, str) else value for name, value in values.items()}
    try:
        return translated.format(**filled_in)
    # A slip in a catalogue is no reason to show nothing: {gpu.name} is looked up as well.
    except (LookupError, ValueError, AttributeError, TypeError):
        return english.format(**filled_in)
