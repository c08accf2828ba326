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
    catalogue: NullTranslations


ENGLISH = Language(tag="en", catalogue=NullTranslations())
"""The language that all texts are written in."""

_spoken: ContextVar[Language] = ContextVar("gpuspawner_language", default=ENGLISH)


def spoken() -> Language:
    """Return the language that texts are made in now."""
    return _spoken.get()


def speak(language: Language) -> None:
    """Have texts made in a language for the rest of this context."""
    _spoken.set(language)


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Have texts made in a language for as long as this lasts: for what is kept, and read by others."""
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def gettext(message: str, /, **values: object) -> str:
    """Return a text in the language spoken now.

    :param message: the English one, with names in braces.
    :param values: what is filled in for them, as :func:`said`; never looked at for braces of its own.
    """
    # To gettext itself an empty text is the catalogue's header.
    return _filled(_spoken.get().catalogue.gettext(message), english=message, values=values) if message else ""


def ngettext(one: str, many: str, /, *, number: int, **values: object) -> str:
    """Return the text for a number of things, in the plural form that the language has for it.

    :param one: the English one for 1.
    :param many: the English one for all other numbers.
    :param number: 0 or more, filled in for ``{number}``.
    """
    catalogue = _spoken.get().catalogue
    english = one if number == 1 else many
    return _filled(catalogue.ngettext(one, many, number), english=english, values={"number": number, **values})


class Later(str):
    """An English text that knows how to be said in another language, for what is kept longer than a request."""

    __slots__ = ("message", "values")

    message: str
    values: dict[str, object]


def later(message: str, /, **values: object) -> Later:
    """Return a text as :func:`gettext` does, in English; :func:`said` returns it in the language spoken then."""
    text = Later(message.format(**values) if values else message)
    text.message, text.values = message, values
    return text


def said(text: str) -> str:
    """Return a text in the language spoken now, where it is one of :func:`later`; any other as it is."""
    return gettext(text.message, **text.values) if isinstance(text, Later) else text


def _filled(translated: str, *, english: str, values: dict[str, object]) -> str:
    if not values:
        return translated
    filled_in = {name: said(value) if isinstance(value, str) else value for name, value in values.items()}
    try:
        return translated.format(**filled_in)
    # A slip in a catalogue is no reason to show nothing: {gpu.name} is looked up as well.
    except (LookupError, ValueError, AttributeError, TypeError):
        return english.format(**filled_in)
