"""A user's own text inside a message: short, on one line, and visibly a quotation.

Which of many words may be meant by a misspelt one.

Comparing a word with another takes microseconds; a thousand wrong names with a thousand right ones, half a minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache

from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences

_MAX_COMPARED = 100
"""So many words are compared one by one."""
_MAX_WORDS_PER_NGRAM = 100
"""So many words with the same piece are looked at: what more of them have says little."""
_MAX_CANDIDATES = 12


def find_closest_word(word: str, words: Collection[str]) -> str:
    """Return the word that is most like another one, empty where none is like it."""
    if len(words) > _MAX_COMPARED:
        words = _select_candidates(word, _index_by_ngram(tuple(words)))
    return next(iter(get_close_matches(word, words, n=1)), "")


def _select_candidates(word: str, by_piece: Mapping[str, list[str]]) -> list[str]:
    """Return the words that have most in common with another one, the rarer the better."""
    shared: defaultdict[str, float] = defaultdict(float)
    for piece in _list_ngrams(word):
        having = by_piece.get(piece, [])
        for each in having[:_MAX_WORDS_PER_NGRAM]:
            shared[each] += 1 / len(having)
    return sorted(shared, key=lambda each: (-shared[each], each))[:_MAX_CANDIDATES]


@lru_cache(maxsize=4)
def _index_by_ngram(words: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in words:
        for piece in _list_ngrams(word):
            found.setdefault(piece, []).append(word)
    return found


def _list_ngrams(word: str) -> set[str]:
    """Return the pairs and threes of letters of a word, with its ends."""
    marked = f"\x02{word}\x03"
    return {marked[start : start + size] for size in (2, 3) for start in range(len(marked) - size + 1)}


_MAX_QUOTED = 40
"""Characters of a user's text that a message repeats."""


def quote(value: object) -> str:
    """Return a value as a message may repeat it; what is no text or small number is only named by its type."""
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_QUOTED else value[: _MAX_QUOTED - 1] + "…")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # Python refuses to write very long numbers; nobody wants to read them either.
    if isinstance(value, int | float) and abs(value) < 10**_MAX_QUOTED:
        return repr(value)
    if isinstance(value, int | float):
        return gettext("a number")
    return gettext("a list") if isinstance(value, list | tuple) else gettext("an object")


def sanitize_name(key: object) -> str:
    """Return the name of a field nobody knows, cut to what a message may repeat and without control characters."""
    return quote(key)[1:-1] if isinstance(key, str) else quote(key)


def suggest_name(wrong: object, allowed: Collection[str]) -> str:
    """Return `` Did you mean 'gpu_count'?`` for the nearest allowed word, or an empty text."""
    meant = find_closest_word(wrong[:_MAX_QUOTED], allowed) if isinstance(wrong, str) else ""
    return " " + gettext("Did you mean {name}?", name=repr(meant)) if meant else ""


def describe_unknown_field(name: object, known: Collection[str]) -> str:
    """Return that there is no field of a name, and which there are."""
    unknown = gettext("There is no field {name}.", name=quote(name))
    return join_sentences(
        unknown, suggest_name(name, known).strip(), gettext("Fields are {names}.", names=", ".join(known))
    )


def format_list(slugs: Collection[str], *, max_items: int = 12) -> str:
    """Return slugs as a list for a sentence, cut after ``max_items``."""
    shown = ", ".join(list(slugs)[:max_items])
    if len(slugs) <= max_items:
        return shown
    return gettext("{names} and {number} more", names=shown, number=len(slugs) - max_items)
