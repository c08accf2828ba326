"""One object for equal values that come again and again: labels and requests of thousands of replicas.

Memory only: nothing depends on whether two equal values are one object. Nobody may change what is returned.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

_KEPT = 8192
"""Values remembered of each kind; one that falls out is made anew when it comes again."""
_LARGEST = 64
"""Parts of a value that is remembered: a pod may hold a megabyte of selectors, and thousands of those are not kept."""

H = TypeVar("H", bound=Hashable)


def labels(found: Mapping[str, str]) -> Mapping[str, str]:
    """Return equal labels, the same object for all who have them, made of shared texts."""
    if len(found) > _LARGEST:
        return found
    return _labels(tuple(found.items())) if found else _NONE


def amounts(found: Mapping[str, int]) -> Mapping[str, int]:
    """Return equal amounts, the same object for all who have them."""
    return _amounts(tuple(found.items())) if found else _NOTHING


def shared(value: H, *, parts: int) -> H:
    """Return an equal value, the same object for all who have it.

    :param parts: how much it is, as a number of texts.
    """
    if parts > _LARGEST:
        return value
    found: H = _shared(value)
    return found


_NONE: Mapping[str, str] = {}
_NOTHING: Mapping[str, int] = {}


@lru_cache(maxsize=_KEPT)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in items}


@lru_cache(maxsize=_KEPT)
def _amounts(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return {sys.intern(key): number for key, number in items}


@lru_cache(maxsize=_KEPT)
def _shared(value: Any) -> Any:
    return value
