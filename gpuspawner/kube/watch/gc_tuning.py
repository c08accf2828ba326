"""Avoids full garbage collections while the hub lists a cluster, and makes later ones shorter.

A full collection visits every object of the process and blocks the event loop: 0.1 s for JupyterHub's modules alone,
and as much again for 100,000 pods. A large list triggers many full collections
(https://docs.python.org/3/library/gc.html#gc.set_threshold), although the pods' objects form no reference cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER_COLLECT = 2**31 - 1


class GCTuning:
    """Changes the settings of the process's garbage collector; several lists may run at once."""

    def __init__(self) -> None:
        self._readers = 0
        self._settled = 0
        self._thresholds = gc.get_threshold()

    @contextmanager
    def pause_full_collections(self) -> Iterator[None]:
        """Disable full collections inside this context; collections of young objects continue."""
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
        """Exclude all objects now in memory from full collections, if a list has more than doubled since the last time.

        Frozen objects are still freed by reference counting. Garbage in cycles at this moment is never freed, so the
        limit doubles with each freeze: https://docs.python.org/3/library/gc.html#gc.freeze

        :param object_count: objects in the cache after a list.
        """
        if object_count > self._settled:
            self._settled = 2 * object_count
            gc.freeze()


GC_TUNING = GCTuning()
