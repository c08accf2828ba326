"""How texts for people are put together: names in a row, articles, clauses that become sentences, paragraphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuspawner.core.text.i18n import ENGLISH, get_language, gettext

_SPELLED_OUT = re.compile(r"[A-Z]+(?=[\d\W]|$)|[A-Z][A-Z\d]+")
"""The beginning of a name that is read letter by letter (``A100``, ``RTX``), or as if it were (``NVIDIA``)."""
_VOWEL_LETTERS = frozenset("AEFHILMNORSX")
"""Letters whose names begin with a vowel."""
_VOWELS = frozenset("aeiouAEIOU")
_FULL_STOPS = (".", "。")
_MIN_JOINED = 2


def join_with_and(names: Sequence[str], *, translate: Callable[..., str] = gettext) -> str:
    """Return names in a row, all of which are meant: ``A100, H100 and L4``.

    :param translate: for what is kept, :func:`gpuspawner.core.text.i18n.gettext_lazy`.
    """
    if len(names) < _MIN_JOINED:
        return names[0] if names else ""
    return translate("{names} and {last}", names=_join_with_commas(names[:-1], translate), last=names[-1])


def join_with_or(names: Sequence[str], *, translate: Callable[..., str] = gettext) -> str:
    """Return names in a row, one of which is meant: ``A100, H100 or L4``.

    :param translate: as for :func:`join_with_and`.
    """
    if len(names) < _MIN_JOINED:
        return names[0] if names else ""
    return translate("{names} or {last}", names=_join_with_commas(names[:-1], translate), last=names[-1])


def add_article(name: str) -> str:
    """Return a name with ``a`` or ``an``, as it is read: ``an A100``, ``a T4``, ``an RTX 4090``.

    Other languages have an article before each name, or none.
    """
    spelled = _SPELLED_OUT.match(name)
    vowel = name[:1] in _VOWEL_LETTERS if spelled else name[:1] in _VOWELS or name[:1] == "8"
    return gettext("an {name}", name=name) if vowel else gettext("a {name}", name=name)


def join_sentences(*sentences: str) -> str:
    """Return sentences one after the other, without those that are empty."""
    text = ""
    for each in filter(None, sentences):
        text = gettext("{text} {sentence}", text=text, sentence=each) if text else each
    return text


def make_sentence(clause: str) -> str:
    """Return a clause as a sentence: it begins with a capital and ends with a full stop."""
    text = f"{clause[:1].upper()}{clause[1:]}"
    return text if text.endswith((*_FULL_STOPS, "!", "?")) or not text else gettext("{sentence}.", sentence=text)


def make_clause(sentence: str) -> str:
    """Return a sentence as it stands after a colon, without its full stop.

    In English a first word that is no name begins with a small letter there; elsewhere that is a matter of the
    translation.
    """
    is_word = get_language() is ENGLISH and not sentence[1:2].isupper() and not sentence[1:2].isdigit()
    text = f"{sentence[:1].lower()}{sentence[1:]}" if is_word else sentence
    return text[:-1] if text.endswith(_FULL_STOPS) else text


def _join_with_commas(names: Sequence[str], translate: Callable[..., str]) -> str:
    row = names[0]
    for name in names[1:]:
        row = translate("{names}, {name}", names=row, name=name)
    return row
