"""Finds the value that a dotted path such as ``gpus.l4.match`` names; keys may contain dots themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

NodeT = TypeVar("NodeT")

PathPart = str | int
"""A key, or an index in a list."""


class DottedPaths(Generic[NodeT]):
    """Resolves dotted paths in nested values.

    Each value's entries are listed once, because thousands of paths may go through the same value.

    :param entries: yields the entries of a value: the name in a path, the key or index, and the entry.
    """

    def __init__(self, entries: Callable[[NodeT], Iterable[tuple[str, PathPart, NodeT]]]) -> None:
        self._entries = entries
        # Keeps a reference to the value, so that its id is not reused.
        self._known: dict[int, tuple[NodeT, dict[str, list[tuple[PathPart, NodeT]]]]] = {}

    def follow(self, path: str, top: NodeT) -> tuple[tuple[PathPart, ...], str]:
        """Return the keys and indexes of the longest resolvable part of a path, and the unresolved rest.

        :param path: with dots between its parts; empty for the value itself.
        :param top: value in which the path starts.
        """
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
