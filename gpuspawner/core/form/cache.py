"""A cache for parts of the form's view, which are the same for many users.

The hub owns one :class:`FormCache` for all users and passes it in. Without a cache, each display of the form builds all
parts again.
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
    gpu: GPUType
    available: Availability
    scalable_pools: tuple[ScalableNodePool, ...] | None
    view: GPUTypeView


class FormCache:
    """Cache of the views of images and GPU types, and of the counts of GPU units (GPUs, MIG slices or shares of GPUs).

    The key of a cached view consists of a language and the ``id`` of a catalog or GPU type. The cached entry holds a
    reference to that catalog or type, so that Python cannot give the same ``id`` to another object.

    :ivar availability: cache of the counts of GPU units.
    """

    def __init__(self) -> None:
        self.availability = AvailabilityCache()
        self._images: OrderedDict[tuple[int, str], _CachedImages] = OrderedDict()
        self._rows: OrderedDict[tuple[int, str], _CachedRow] = OrderedDict()

    def get_image_views(
        self, catalog: Catalog, *, build: Callable[[Catalog], tuple[ImageView, ...]]
    ) -> tuple[ImageView, ...]:
        """Return the views of a catalog's images.

        :param catalog: what the hub offers to all users; the same object until the cluster's nodes change.
        """
        key = id(catalog), get_language().tag
        entry = self._images.get(key)
        if entry is None:
            entry = _CachedImages(catalog=catalog, views=build(catalog))
            _put(self._images, key=key, value=entry, limit=_MAX_CATALOGS)
        return entry.views

    def get_gpu_view(
        self,
        gpu: GPUType,
        available: Availability,
        *,
        scalable_pools: tuple[ScalableNodePool, ...] | None,
        build: Callable[..., GPUTypeView],
    ) -> GPUTypeView:
        """Return the view of a GPU type in the current language, cached until the type, counts or pools change.

        :param gpu: the type, compared by identity.
        :param available: the type's counts of units, compared by identity.
        :param scalable_pools: node pools that autoscalers may enlarge; None if unknown.
        :param build: builds the view from the other arguments if the cache does not have it.
        """
        key = id(gpu), get_language().tag
        row = self._rows.get(key)
        if row is None or row.available is not available or row.scalable_pools != scalable_pools:
            view = build(gpu, available, scalable_pools=scalable_pools)
            row = _CachedRow(gpu=gpu, available=available, scalable_pools=scalable_pools, view=view)
            _put(self._rows, key=key, value=row, limit=_MAX_ROWS)
        return row.view


def _put(entries: OrderedDict[tuple[int, str], _ValueT], *, key: tuple[int, str], value: _ValueT, limit: int) -> None:
    entries[key] = value
    if len(entries) > limit:
        entries.popitem(last=False)
