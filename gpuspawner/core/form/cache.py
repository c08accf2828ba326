"""What the form shows, kept from one request to the next as long as what it was made from stays the same.

The hub owns one :class:`FormCache` for all users and passes it in. Without one, everything is computed at each call;
the results are equal either way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gpuspawner.core.catalog.model import Catalog, GPUType
from gpuspawner.core.cluster.model import ScalableNodePool
from gpuspawner.core.form.views import GPUTypeView, ImageView
from gpuspawner.core.text.i18n import get_language
from gpuspawner.core.verdict.availability import Availability, AvailabilityCache

_MAX_CATALOGS = 32
_MAX_ROWS = 1024

_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedImages:
    catalog: Catalog
    views: tuple[ImageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedRow:
    """The last view of a GPU type, and what it was made from."""

    gpu: GPUType
    available: Availability
    scalable_pools: tuple[ScalableNodePool, ...] | None
    view: GPUTypeView


class FormCache:
    """Keeps the views of images and GPU types, and the counts of GPU units.

    Entries are found by the identity of a catalog or GPU type, which the entry keeps alive, and the language's tag.

    :ivar availability: the counts of GPU units.
    """

    def __init__(self) -> None:
        self.availability = AvailabilityCache()
        self._images: OrderedDict[tuple[int, str], _CachedImages] = OrderedDict()
        self._rows: OrderedDict[tuple[int, str], _CachedRow] = OrderedDict()

    def get_image_views(
        self, catalog: Catalog, *, build: Callable[[Catalog], tuple[ImageView, ...]]
    ) -> tuple[ImageView, ...]:
        """Return the views of a catalog's images.

        A catalog stays the same until the cluster's nodes change.

        :param build: makes the views that are not in the cache.
        """
        key = id(catalog), get_language().tag
        kept = self._images.get(key)
        if kept is None:
            kept = _CachedImages(catalog=catalog, views=build(catalog))
            _put(self._images, key=key, value=kept, limit=_MAX_CATALOGS)
        return kept.views

    def get_gpu_view(
        self,
        gpu: GPUType,
        available: Availability,
        *,
        scalable_pools: tuple[ScalableNodePool, ...] | None,
        build: Callable[..., GPUTypeView],
    ) -> GPUTypeView:
        """Return the view of a GPU type; the same object as long as nothing about it changes.

        Between two requests, a cluster changes by a type or two.

        :param available: the type's units; an equal but other object counts as a change.
        :param scalable_pools: node pools that an autoscaler may add nodes to, None if they are unknown.
        :param build: makes a view that is not in the cache, from the same arguments.
        """
        key = id(gpu), get_language().tag
        row = self._rows.get(key)
        if row is None or row.available is not available or row.scalable_pools != scalable_pools:
            view = build(gpu, available, scalable_pools=scalable_pools)
            row = _CachedRow(gpu=gpu, available=available, scalable_pools=scalable_pools, view=view)
            _put(self._rows, key=key, value=row, limit=_MAX_ROWS)
        return row.view


def _put(entries: OrderedDict[tuple[int, str], _ValueT], *, key: tuple[int, str], value: _ValueT, limit: int) -> None:
    """Add an entry and drop the oldest one above the limit."""
    entries[key] = value
    if len(entries) > limit:
        entries.popitem(last=False)
