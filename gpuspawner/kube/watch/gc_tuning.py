"""Python's garbage collector while a cluster is read, and afterwards.

A full collection looks at every object of the process, in which time the hub answers nobody: a tenth of a second for
JupyterHub's modules alone, and as much again with 100,000 pods in memory. While so much comes to stay, one full
collection follows the other (https://docs.python.org/3/library/gc.html#gc.set_threshold), and finds nothing: what is
kept of pods is in no cycle.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER_COLLECT = 2**31 - 1


class GCTuning:
    """The garbage collector of this process, for several readers at a time."""

    def __init__(self) -> None:
        self._readers = 0
        self._settled = 0
        self._thresholds = gc.get_threshold()

    @contextmanager
    def pause_full_collections(self) -> Iterator[None]:
        """Have no full collection as long as this is open; young objects are collected as ever."""
        if not self._readers:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*self._thresholds[:2], _NEVER_COLLECT)
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                gc.set_threshold(*self._thresholds)

    def freeze(self, object_count: int) -> None:
        """Leave everything that is in memory now out of full collections, where this many objects came to stay.

        They still go when nobody refers to them any more. Only garbage in cycles that is waiting at this moment is kept
        for good, so it happens again only for twice as many: https://docs.python.org/3/library/gc.html#gc.freeze
        """
        if object_count > self._settled:
            self._settled = 2 * object_count
            gc.freeze()


GC_TUNING = GCTuning()
