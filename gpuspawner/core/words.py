"""Amounts and names inside sentences for people: numbers with their nouns, articles, rounding that stays true."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from gpuspawner.core.quantity import format_cpu, format_memory

_SPELLED = re.compile(r"[A-Z]+(?=[\d\W]|$)|[A-Z][A-Z\d]+")
"""The beginning of a name that is read letter by letter (``A100``, ``RTX``), or as if it were (``NVIDIA``)."""
_VOWEL_LETTERS = frozenset("AEFHILMNORSX")
"""Letters whose names begin with a vowel."""
_VOWELS = frozenset("aeiouAEIOU")

_TENTHS = 10
_ONE_CORE = 1000
_ROUND_FROM = 1 << 20
"""Bytes from which on memory is shown in tenths of a unit."""
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))
_MINUTES_PER_HOUR = 60
_SHOWN_IN_MINUTES = 90
"""Minutes from which on a duration is shown in hours."""


_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def vendor_name(vendor: str) -> str:
    """Return how a vendor writes itself; an unknown one as it is."""
    return _VENDOR_NAMES.get(vendor, vendor) or "Other"


def listed(names: Sequence[str], *, last: str) -> str:
    """Return names in a row, with a word before the last one: ``A100, H100 or L4``."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else "".join(names)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: ``1 place``, ``3 places``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(name: str) -> str:
    """Return a name with ``a`` or ``an``, as it is read: ``an A100``, ``a T4``, ``an RTX 4090``."""
    spelled = _SPELLED.match(name)
    vowel = name[:1] in _VOWEL_LETTERS if spelled else name[:1] in _VOWELS or name[:1] == "8"
    return f"{'an' if vowel else 'a'} {name}"


def cpus(millis: int, *, up: bool = True) -> str:
    """Return millicores for people in tenths of a CPU: ``4 CPUs``, ``0.5 CPU``.

    :param up: round what is needed up and what is there down: never the other way, so that the two never look equal.
    """
    tenth = _ONE_CORE // _TENTHS
    rounded = (-(-millis // tenth) if up else millis // tenth) * tenth
    return f"{format_cpu(rounded)} {'CPU' if 0 < rounded <= _ONE_CORE else 'CPUs'}"


def memory(size_bytes: int, *, up: bool = True) -> str:
    """Return bytes for people in tenths of a unit: ``16 GiB``, ``503.4 GiB``.

    :param up: as for :func:`cpus`.
    """
    unit, factor = next(((unit, factor) for unit, factor in _UNITS if size_bytes >= factor), ("", 1))
    if size_bytes < _ROUND_FROM:
        return format_memory(size_bytes)
    exact = Fraction(size_bytes * _TENTHS, factor)
    tenths = math.ceil(exact) if up else math.floor(exact)
    return f"{tenths // _TENTHS}{f'.{tenths % _TENTHS}' if tenths % _TENTHS else ''} {unit}"


def duration(minutes: float) -> str:
    """Return a rough duration: ``less than a minute``, ``about 6 min``, ``about 2 h``."""
    if minutes < 1:
        return "less than a minute"
    if minutes < _SHOWN_IN_MINUTES:
        return f"about {round(minutes)} min"
    return f"about {round(minutes / _MINUTES_PER_HOUR)} h"


def age(seconds: float) -> str:
    """Return an age: ``75 s``, ``12 min``, ``2 h``; never more than it is."""
    minutes = int(seconds) // 60
    if minutes < 2:  # noqa: PLR2004 - two minutes
        return f"{int(seconds)} s"
    return f"{minutes} min" if minutes < _SHOWN_IN_MINUTES else f"{minutes // _MINUTES_PER_HOUR} h"


def as_sentence(clause: str) -> str:
    """Return a clause as a sentence: it begins with a capital and ends with a full stop."""
    text = f"{clause[:1].upper()}{clause[1:]}"
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."


def as_clause(sentence: str) -> str:
    """Return a sentence as it stands after a colon: a first word that is no name begins with a small letter."""
    is_word = not sentence[1:2].isupper() and not sentence[1:2].isdigit()
    text = f"{sentence[:1].lower()}{sentence[1:]}" if is_word else sentence
    return text.removesuffix(".")
