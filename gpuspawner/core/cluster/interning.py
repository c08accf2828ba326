"""One object for equal values that come again and again: labels and requests of thousands of replicas.

Memory only: nothing depends on whether two equal values are one object. Nobody may change what is returned.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

_MAX_VALUES = 8192
"""Values remembered of each kind; one that falls out is made anew when it comes again."""
_MAX_PARTS = 64
"""Parts of a value that is remembered: a pod may hold a megabyte of selectors, and thousands of those are not kept."""

_H = TypeVar("_H", bound=Hashable)


def intern_labels(found: Mapping[str, str]) -> Mapping[str, str]:
    """Return equal labels, the same object for all who have them, made of shared texts."""
    if len(found) > _MAX_PARTS:
        return found
    return _make_labels(tuple(found.items())) if found else _NO_LABELS


def intern_amounts(found: Mapping[str, int]) -> Mapping[str, int]:
    """Return equal amounts, the same object for all who have them."""
    return _make_amounts(tuple(found.items())) if found else _NO_AMOUNTS


def intern_value(value: _H, *, size: int) -> _H:
    """Return an equal value, the same object for all who have it.

    :param size: how much it is, as a number of texts.
    """
    if size > _MAX_PARTS:
        return value
    found: _H = _remember(value)
    return found


_NO_LABELS: Mapping[str, str] = {}
_NO_AMOUNTS: Mapping[str, int] = {}


@lru_cache(maxsize=_MAX_VALUES)
def _make_labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in items}


@lru_cache(maxsize=_MAX_VALUES)
def _make_amounts(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return {sys.intern(key): number for key, number in items}


@lru_cache(maxsize=_MAX_VALUES)
def _remember(value: Any) -> Any:
    return value
