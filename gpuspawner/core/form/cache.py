"""A cache for parts of the form's view, which are the same for many users.

The hub owns one :class:`FormCache` for all users and passes it in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from gpuspawner.core.text.i18n import get_language
from gpuspawner.core.verdict.availability import AvailabilityCache

_MAX_VIEWS = 1024

_ViewT = TypeVar("_ViewT")


class FormCache:
    """Cache of views, and of the counts of GPU units (GPUs, MIG slices or shares of GPUs).

    :ivar availability: cache of the counts of GPU units.
    """

    def __init__(self) -> None:
        self.availability = AvailabilityCache()
        self._views: OrderedDict[tuple[object, ...], tuple[tuple[object, ...], Any]] = OrderedDict()

    def get_view(self, *sources: object, build: Callable[[], _ViewT]) -> _ViewT:
        """Return the view of some objects in the current language, which ``build`` returns if the cache lacks it.

        :param sources: all that the view depends on, compared by identity. The cache keeps them with the view, so that
            Python cannot give the same ``id`` to another object.
        """
        key = (*map(id, sources), get_language().tag)
        if key not in self._views:
            self._views[key] = sources, build()
            if len(self._views) > _MAX_VIEWS:
                self._views.popitem(last=False)
        view: _ViewT = self._views[key][1]
        return view
