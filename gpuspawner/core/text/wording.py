"""Build messages from parts: lists of names, articles, sentences and clauses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpuspawner.core.text.i18n import ENGLISH, get_language, gettext

_SPELLED_OUT = re.compile(r"[A-Z]+(?=[\d\W]|$)|[A-Z][A-Z\d]+")
"""Start of a name that is read letter by letter (``A100``, ``RTX``); ``NVIDIA`` takes the same article."""
_VOWEL_LETTERS = frozenset("AEFHILMNORSX")
"""Letters whose spoken names begin with a vowel."""
_VOWELS = frozenset("aeiouAEIOU")
_PERIODS = (".", "。")
_MIN_JOINED = 2


def join_with_and(names: Sequence[str], *, translate: Callable[..., str] = gettext) -> str:
    """Return names joined with "and": ``A100, H100 and L4``.

    :param names: in the order to show; empty gives an empty text.
    :param translate: :func:`~gpuspawner.core.text.i18n.gettext_lazy` for text that outlives the request.
    """
    if len(names) < _MIN_JOINED:
        return names[0] if names else ""
    return translate("{names} and {last}", names=_join_with_commas(names[:-1], translate), last=names[-1])


def join_with_or(names: Sequence[str], *, translate: Callable[..., str] = gettext) -> str:
    """Return names joined with "or": ``A100, H100 or L4``.

    :param names: as for :func:`join_with_and`.
    :param translate: as for :func:`join_with_and`.
    """
    if len(names) < _MIN_JOINED:
        return names[0] if names else ""
    return translate("{names} or {last}", names=_join_with_commas(names[:-1], translate), last=names[-1])


def add_article(name: str) -> str:
    """Return a name with ``a`` or ``an`` as it is pronounced: ``an A100``, ``a T4``, ``an RTX 4090``.

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
