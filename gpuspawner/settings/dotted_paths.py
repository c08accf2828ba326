"""Where dotted paths of messages lead in what somebody wrote, whose own names may have dots in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

NodeT = TypeVar("NodeT")

PathPart = str | int
"""A key, or the number of an entry in a list."""


class DottedPaths(Generic[NodeT]):
    """Follows paths from values to those in them.

    What is in a value is gone through once, for however many paths: thousands of mistakes may be below one key.

    :param entries: yields what paths call an entry of a value, where it is in there, and the entry.
    """

    def __init__(self, entries: Callable[[NodeT], Iterable[tuple[str, PathPart, NodeT]]]) -> None:
        self._entries = entries
        # With the value itself, so that nothing else gets the same identity.
        self._known: dict[int, tuple[NodeT, dict[str, list[tuple[PathPart, NodeT]]]]] = {}

    def follow(self, path: str, top: NodeT) -> tuple[tuple[PathPart, ...], str]:
        """Return as much of a path as there is, and what is left of it."""
        best: tuple[tuple[PathPart, ...], str] = ((), path)
        named = self._named(top) if path else {}
        ends = [place for place, character in enumerate(path) if character == "."]
        for end in (*ends, len(path)):
            for part, entry in named.get(path[:end], ()):
                inside, rest = self.follow(path[end + 1 :], entry)
                if len(rest) < len(best[1]):
                    best = ((part, *inside), rest)
        return best

    def _named(self, value: NodeT) -> dict[str, list[tuple[PathPart, NodeT]]]:
        if id(value) not in self._known:
            named: dict[str, list[tuple[PathPart, NodeT]]] = {}
            for name, part, entry in self._entries(value):
                named.setdefault(name, []).append((part, entry))
            self._known[id(value)] = value, named
        return self._known[id(value)][1]
