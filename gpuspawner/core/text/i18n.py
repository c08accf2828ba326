"""Translate messages into the language of the current request.

Messages are written in English as whole sentences with ``{name}`` placeholders, so that a translation may reorder them.
The language is a context variable; Tornado runs each request in its own context. The default is English.
:mod:`gpuspawner.hub.request.languages` reads the translation files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from gettext import NullTranslations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """A language that messages can be translated into.

    :param tag: BCP 47 tag, as in HTML's ``lang``: ``de``, ``zh-CN``.
    """

    tag: str
    translations: NullTranslations


ENGLISH = Language(tag="en", translations=NullTranslations())
"""The language of the messages in the source code, and the default."""

_current_language: ContextVar[Language] = ContextVar("gpuspawner_language", default=ENGLISH)


def get_language() -> Language:
    """Return the language of the current request, or the language that replaces it in :func:`use_language`."""
    return _current_language.get()


def set_language(language: Language) -> None:
    """Set the language of all further messages in the current context, which is usually a request."""
    _current_language.set(language)


@contextmanager
def use_language(language: Language) -> Iterator[None]:
    """Set the language inside a ``with`` block, for example English for log lines.

    :param language: replaces the request's language until the block ends.
    """
    token = _current_language.set(language)
    try:
        yield
    finally:
        _current_language.reset(token)


def gettext(message: str, /, **values: object) -> str:
    """Return a message in the current language.

    :param message: English, with ``{name}`` placeholders.
    :param values: value for each placeholder. A value that is a :class:`LazyText` is translated, too. Braces in values
        have no special meaning.
    """
    if not message:  # For an empty message, gettext would return the translation file's header.
        return ""
    return _fill_in(_current_language.get().translations.gettext(message), english=message, values=values)


def ngettext(one: str, many: str, /, *, number: int, **values: object) -> str:
    """Return a message in the current language, in the plural form for a number.

    :param one: English message for 1.
    :param many: English message for all other numbers.
    :param number: 0 or more; fills ``{number}``.
    :param values: value for each other placeholder, as in :func:`gettext`.
    """
    translated = _current_language.get().translations.ngettext(one, many, number)
    return _fill_in(translated, english=one if number == 1 else many, values={"number": number, **values})


class LazyText(str):
    """An English text that keeps its message and values, so that :func:`translate_now` can translate it later."""

    __slots__ = ("message", "values")

    message: str
    values: dict[str, object]

    def render(self) -> str:
        """Return the text in the current language."""
        return gettext(self.message, **self.values)


def gettext_lazy(message: str, /, **values: object) -> LazyText:
    """Return an English text that :func:`translate_now` can translate later.

    Use this function for constants and cached texts, which requests in different languages show.

    :param message: English, with ``{name}`` placeholders.
    """
    text = LazyText(message.format(**values) if values else message)
    text.message, text.values = message, values
    return text


def translate_now(text: str) -> str:
    """Return a text in the current language.

    :param text: translated if it comes from :func:`gettext_lazy`; returned unchanged otherwise.
    """
    return text.render() if isinstance(text, LazyText) else text


def _fill_in(translated: str, *, english: str, values: dict[str, object]) -> str:
    if not values:
        return translated
    values = {name: translate_now(value) if isinstance(value, str) else value for name, value in values.items()}
    try:
        return translated.format(**values)
    # If a translation has a broken placeholder ({gpu.name} raises AttributeError), use the English message.
    except (LookupError, ValueError, AttributeError, TypeError):
        return english.format(**values)
