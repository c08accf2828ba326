"""Brings what is held to the state of a new list, so that whoever looks in between sees the one or the other.

A list and what is held differ by little, mostly: by what changed while a watch was interrupted. Those differences are
collected and made at once. Put in as the pages come, new pods would be counted beside old ones that are long gone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.object_caches import ObjectCache, ObjectKey, decode_object

_T = TypeVar("_T")

MAX_CHANGES_AT_ONCE = 1000
"""Differences that are made in one go, some ten milliseconds of work; more are made in slices."""


class ListReconciler(Generic[_T]):
    """One list on its way into a target: :meth:`begin`, :meth:`keep` for each object, then :meth:`finish`.

    Nobody else may change what the target holds meanwhile.
    """

    def __init__(self, cache: ObjectCache[_T], *, pacer: Pacer) -> None:
        self._cache = cache
        self._pacer = pacer
        self._unseen: dict[ObjectKey, _T] = {}
        self._is_first = True
        self._changed: list[_T] = []

    async def begin(self) -> None:
        """Note what is held now."""
        for value in self._cache.list_values():
            self._unseen[self._cache.make_key(value)] = value
            await self._pacer.yield_if_due()
        # What nobody has seen yet can be built up in full view, and nothing has to be held twice.
        self._is_first = not self._unseen

    def record(self, raw: object) -> None:
        """Take note of one object of the list."""
        found = decode_object(raw, self._cache)
        if found is None:
            return
        key, value = found
        if value is None:
            return
        if self._is_first:
            self._cache.put(value)
        elif self._unseen.pop(key, None) != value:
            self._changed.append(value)

    async def finish(self) -> None:
        """Make the differences; what the list did not have is dropped."""
        gone: list[ObjectKey] = list(self._unseen)
        in_slices = len(gone) + len(self._changed) > MAX_CHANGES_AT_ONCE
        for key in gone:
            self._cache.drop(key)
            if in_slices:
                await self._pacer.yield_if_due()
        for value in self._changed:
            self._cache.put(value)
            if in_slices:
                await self._pacer.yield_if_due()
