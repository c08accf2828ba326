"""Waiting for a condition, with a deadline and a sentence that says what was waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from devcluster.processes import poll

T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str, *, timeout_s: float = 60) -> T:
    """Call ``look`` until it returns something true, and return that.

    :raises AssertionError: it did not in time; the message ends with what it returned last.
    """
    seen: list[T | None] = [None]

    def found() -> bool:
        seen[0] = look()
        return bool(seen[0])

    if not poll(found, timeout_s=timeout_s, interval_s=0.1):
        raise AssertionError(f"after {timeout_s} s still not: {what} (last seen: {seen[0]!r})")
    assert seen[0] is not None
    return seen[0]
