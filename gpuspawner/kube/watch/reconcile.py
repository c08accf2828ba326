"""Brings what is held to the state of a new list, so that whoever looks in between sees the one or the other.

A list and what is held differ by little, mostly: by what changed while a watch was interrupted. Those differences are
collected and made at once. Put in as the pages come, new pods would be counted beside old ones that are long gone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.targets import Key, Target, read

T = TypeVar("T")

AT_ONCE = 1000
"""Differences that are made in one go, some ten milliseconds of work; more are made in slices."""


class Reconciliation(Generic[T]):
    """One list on its way into a target: :meth:`begin`, :meth:`keep` for each object, then :meth:`finish`.

    Nobody else may change what the target holds meanwhile.
    """

    def __init__(self, target: Target[T], *, pacer: Pacer) -> None:
        self._target = target
        self._pacer = pacer
        self._unseen: dict[Key, T] = {}
        self._is_first = True
        self._changed: list[T] = []

    async def begin(self) -> None:
        """Note what is held now."""
        for value in self._target.held():
            self._unseen[self._target.key(value)] = value
            await self._pacer.turn()
        # What nobody has seen yet can be built up in full view, and nothing has to be held twice.
        self._is_first = not self._unseen

    def keep(self, raw: object) -> None:
        """Take note of one object of the list."""
        found = read(raw, self._target)
        if found is None:
            return
        key, value = found
        if value is None:
            return
        if self._is_first:
            self._target.put(value)
        elif self._unseen.pop(key, None) != value:
            self._changed.append(value)

    async def finish(self) -> None:
        """Make the differences; what the list did not have is dropped."""
        gone: list[Key] = list(self._unseen)
        in_slices = len(gone) + len(self._changed) > AT_ONCE
        for key in gone:
            self._target.drop(key)
            if in_slices:
                await self._pacer.turn()
        for value in self._changed:
            self._target.put(value)
            if in_slices:
                await self._pacer.turn()
