"""Build messages from parts: lists of names, articles, sentences and clauses.

Quote a user's input inside a message, and suggest the right name for a misspelled name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

from gpuspawner.core.text.i18n import ENGLISH, get_language, gettext

_SPELLED_OUT = re.compile(r"[A-Z]+(?=[\d\W]|$)|[A-Z][A-Z\d]+")
"""Pattern for the start of a name that speakers say letter by letter (``A100``, ``RTX``). ``NVIDIA`` also matches,
although speakers say it as a word. This does no harm: the article is ``an`` in both cases."""
_VOWEL_LETTERS = frozenset("AEFHILMNORSX")
"""Letters whose spoken names begin with a vowel."""
_VOWELS = frozenset("aeiouAEIOU")
_PERIODS = (".", "。")
_MIN_JOINED = 2


def join_with_and(names: Sequence[str], *, translate: Callable[..., str] = gettext) -> str:
    """Return names joined with "and": ``A100, H100 and L4``.

    :param names: names in the order to show; without names, the result is empty.
    :param translate: function that translates; pass :func:`~gpuspawner.core.text.i18n.gettext_lazy` for text that is
        used after the request.
    """
    if len(names) < _MIN_JOINED:
        return names[0] if names else ""
    return translate("{names} and {last}", names=_join_with_commas(names[:-1], translate), last=names[-1])


def join_with_or(names: Sequence[str], *, translate: Callable[..., str] = gettext) -> str:
    """Return names joined with "or": ``A100, H100 or L4``.

    :param names: names in the order to show; without names, the result is empty.
    :param translate: function that translates; pass :func:`~gpuspawner.core.text.i18n.gettext_lazy` for text that is
        used after the request.
    """
    if len(names) < _MIN_JOINED:
        return names[0] if names else ""
    return translate("{names} or {last}", names=_join_with_commas(names[:-1], translate), last=names[-1])


def add_article(name: str) -> str:
    """Return a name with ``a`` or ``an``, depending on its pronunciation: ``an A100``, ``a T4``, ``an RTX 4090``.

    A translation may use another article, or none.
    """
    spelled = _SPELLED_OUT.match(name)
    vowel = name[:1] in _VOWEL_LETTERS if spelled else name[:1] in _VOWELS or name[:1] == "8"
    return gettext("an {name}", name=name) if vowel else gettext("a {name}", name=name)


def join_sentences(*sentences: str) -> str:
    """Return sentences as one paragraph.

    :param sentences: complete sentences; empty ones are skipped.
    """
    text = ""
    for each in filter(None, sentences):
        text = gettext("{text} {sentence}", text=text, sentence=each) if text else each
    return text


def make_sentence(clause: str) -> str:
    """Return a clause as a sentence: capitalized, with a period at the end."""
    text = f"{clause[:1].upper()}{clause[1:]}"
    return text if text.endswith((*_PERIODS, "!", "?")) or not text else gettext("{sentence}.", sentence=text)


def make_clause(sentence: str) -> str:
    """Return a sentence without its period, to stand after a colon.

    In English the first word becomes lower case unless it looks like a name (``RTX``, ``A100``).
    """
    is_word = get_language() is ENGLISH and not sentence[1:2].isupper() and not sentence[1:2].isdigit()
    text = f"{sentence[:1].lower()}{sentence[1:]}" if is_word else sentence
    return text[:-1] if text.endswith(_PERIODS) else text


def _join_with_commas(names: Sequence[str], translate: Callable[..., str]) -> str:
    row = names[0]
    for name in names[1:]:
        row = translate("{names}, {name}", names=row, name=name)
    return row


_MAX_COMPARED = 3_000
"""gpuspawner compares a misspelled word with at most this many correct words, because each takes 5 to 30 µs."""


def find_closest_word(word: str, words: Iterable[str]) -> str:
    """Return the word in ``words`` that is most similar to ``word``, or an empty text if none is similar."""
    return next(iter(get_close_matches(word, list(islice(words, _MAX_COMPARED)), n=1)), "")


_MAX_QUOTED = 40
"""Largest number of characters of a user's text that a message repeats."""


def quote(value: object) -> str:
    """Return a user's input for a message: on one line and cut to 40 characters.

    :param value: the user's input; for a list, an object or a very large number, the result is just ``a list``,
        ``an object`` or ``a number``.
    """
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_QUOTED else value[: _MAX_QUOTED - 1] + "…")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        # Do not call repr() of a huge number: it raises ValueError for an int with more than 4,300 digits.
        return repr(value) if abs(value) < 10**_MAX_QUOTED else gettext("a number")
    return gettext("a list") if isinstance(value, list | tuple) else gettext("an object")


def sanitize_name(key: object) -> str:
    """Return a name for a message, without quotes: cut to 40 characters and with control characters escaped.

    :param key: the name, such as a field in the user's input; a name that is not text is formatted by :func:`quote`.
    """
    return quote(key)[1:-1] if isinstance(key, str) else quote(key)


def suggest_name(wrong: object, allowed: Collection[str]) -> str:
    """Return `` Did you mean 'gpu_count'?`` (with the leading space), or "" if no allowed word is similar."""
    closest = find_closest_word(wrong[:_MAX_QUOTED], allowed) if isinstance(wrong, str) else ""
    return " " + gettext("Did you mean {name}?", name=repr(closest)) if closest else ""


def describe_unknown_field(name: object, known: Collection[str]) -> str:
    """Return sentences that name an unknown field, a known field with a similar name (if any) and all known fields."""
    unknown = gettext("There is no field {name}.", name=quote(name))
    return join_sentences(
        unknown, suggest_name(name, known).strip(), gettext("Fields are {names}.", names=", ".join(known))
    )


def format_list(slugs: Collection[str], *, max_items: int = 12) -> str:
    """Return names (slugs) as a list inside a sentence: ``a, b and 3 more``."""
    shown = ", ".join(list(slugs)[:max_items])
    if len(slugs) <= max_items:
        return shown
    return gettext("{names} and {number} more", names=shown, number=len(slugs) - max_items)
