"""Share one object among equal values, such as the labels of thousands of replicas, to save memory.

Results must not be modified. Correctness never depends on sharing; some loops are faster because of it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

_MAX_VALUES = 8192
"""Cached values of each kind."""
_MAX_PARTS = 64
"""Larger values are not cached: the selectors of one pod may take a megabyte."""

_H = TypeVar("_H", bound=Hashable)


def intern_labels(found: Mapping[str, str]) -> Mapping[str, str]:
    """Return a shared mapping equal to ``found``, with interned keys and values."""
    if len(found) > _MAX_PARTS:
        return found
    return _make_labels(tuple(found.items())) if found else _NO_LABELS


def intern_amounts(found: Mapping[str, int]) -> Mapping[str, int]:
    """Return a shared mapping equal to ``found``, with interned keys."""
    return _make_amounts(tuple(found.items())) if found else _NO_AMOUNTS


def intern_value(value: _H, *, size: int) -> _H:
    """Return a shared object equal to ``value``.

    :param size: number of texts in it; a value of more than 64 is not shared.
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
