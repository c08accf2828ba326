"""Quote a user's input inside a message, and suggest the right name for a misspelled one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache

from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences

_MAX_COMPARED = 100
"""Above this number of words, an n-gram index selects the candidates for the slow comparison (microseconds a pair)."""
_MAX_WORDS_PER_NGRAM = 100
"""An n-gram that more words share says little: only the first of them get its score."""
_MAX_CANDIDATES = 12


def find_closest_word(word: str, words: Collection[str]) -> str:
    """Return the word most similar to ``word``, empty if none is similar."""
    if len(words) > _MAX_COMPARED:
        words = _select_candidates(word, _index_by_ngram(tuple(words)))
    return next(iter(get_close_matches(word, words, n=1)), "")


def _select_candidates(word: str, index: Mapping[str, list[str]]) -> list[str]:
    """Return the words that share the most n-grams with ``word``; an n-gram of fewer words scores higher."""
    scores: defaultdict[str, float] = defaultdict(float)
    for ngram in _list_ngrams(word):
        candidates = index.get(ngram, [])
        for each in candidates[:_MAX_WORDS_PER_NGRAM]:
            scores[each] += 1 / len(candidates)
    return sorted(scores, key=lambda each: (-scores[each], each))[:_MAX_CANDIDATES]


@lru_cache(maxsize=4)
def _index_by_ngram(words: tuple[str, ...]) -> dict[str, list[str]]:
    index: dict[str, list[str]] = {}
    for word in words:
        for ngram in _list_ngrams(word):
            index.setdefault(ngram, []).append(word)
    return index


def _list_ngrams(word: str) -> set[str]:
    """Return the bigrams and trigrams of a word, with markers for its start and end."""
    marked = f"\x02{word}\x03"
    return {marked[start : start + size] for size in (2, 3) for start in range(len(marked) - size + 1)}


_MAX_QUOTED = 40
"""Characters of a user's text that a message repeats."""


def quote(value: object) -> str:
    """Return a value as a message repeats it: on one line and cut to 40 characters.

    :param value: from the user; lists, objects and very large numbers appear only as their type.
    """
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_QUOTED else value[: _MAX_QUOTED - 1] + "…")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        # repr() of an int with more than 4,300 digits raises ValueError.
        return repr(value) if abs(value) < 10**_MAX_QUOTED else gettext("a number")
    return gettext("a list") if isinstance(value, list | tuple) else gettext("an object")


def sanitize_name(key: object) -> str:
    """Return an unknown field's name, cut to 40 characters and with control characters escaped.

    :param key: from the user; a key that is not text is quoted as :func:`quote` does.
    """
    return quote(key)[1:-1] if isinstance(key, str) else quote(key)


def suggest_name(wrong: object, allowed: Collection[str]) -> str:
    """Return `` Did you mean 'gpu_count'?`` (with the leading space) for the closest allowed word, empty if none."""
    closest = find_closest_word(wrong[:_MAX_QUOTED], allowed) if isinstance(wrong, str) else ""
    return " " + gettext("Did you mean {name}?", name=repr(closest)) if closest else ""


def describe_unknown_field(name: object, known: Collection[str]) -> str:
    """Return sentences that name an unknown field, the closest known field and all known fields."""
    unknown = gettext("There is no field {name}.", name=quote(name))
    return join_sentences(
        unknown, suggest_name(name, known).strip(), gettext("Fields are {names}.", names=", ".join(known))
    )


def format_list(slugs: Collection[str], *, max_items: int = 12) -> str:
    """Return slugs as a list inside a sentence: ``a, b and 3 more``.

    :param slugs: in the order to show.
    :param max_items: number of slugs shown.
    """
    shown = ", ".join(list(slugs)[:max_items])
    if len(slugs) <= max_items:
        return shown
    return gettext("{names} and {number} more", names=shown, number=len(slugs) - max_items)
