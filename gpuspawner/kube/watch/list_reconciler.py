"""Applies a new list to a cache without showing readers a mixture of old and new objects.

A new list mostly equals the cache except for changes during an interruption. The reconciler collects those differences
while the pages arrive and applies them at the end. Applied page by page, new pods would count beside pods long gone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from gpuspawner.kube.client.pacing import Pacer
from gpuspawner.kube.watch.object_caches import ObjectCache, ObjectKey, decode_object

_T = TypeVar("_T")

MAX_CHANGES_AT_ONCE = 1000
"""Up to this number, differences are applied without yielding to the event loop (about 10 ms)."""


class ListReconciler(Generic[_T]):
    """Applies one list: call :meth:`begin`, then :meth:`record` for each object, then :meth:`finish`.

    The cache must not change in any other way meanwhile.

    :param cache: receives the objects.
    :param pacer: yields to the event loop.
    """

    def __init__(self, cache: ObjectCache[_T], *, pacer: Pacer) -> None:
        self._cache = cache
        self._pacer = pacer
        self._unseen: dict[ObjectKey, _T] = {}
        self._is_first = True
        self._changed: list[_T] = []

    async def begin(self) -> None:
        """Record which objects the cache holds now."""
        for value in self._cache.list_values():
            self._unseen[self._cache.make_key(value)] = value
            await self._pacer.yield_if_due()
        # An empty cache is filled directly, which avoids holding every object twice.
        self._is_first = not self._unseen

    def record(self, raw: object) -> None:
        """Compare one object of the list with the cache.

        :param raw: JSON object.
        """
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
        """Apply the differences, and drop the objects that the list did not contain."""
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
