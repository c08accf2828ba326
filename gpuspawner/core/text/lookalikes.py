"""Which of many words may be meant by a misspelt one.

Comparing a word with another takes microseconds; a thousand wrong names with a thousand right ones, half a minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache

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
