"""The images of the form, with the GPU types that each cannot use."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gpuspawner.core.catalogue import Catalogue, Image
from gpuspawner.core.formview_types import ImageView, MisfitView
from gpuspawner.core.image_use import made_for, misfit_text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    catalogue: Catalogue
    views: tuple[ImageView, ...]


_VIEWS: OrderedDict[int, _Kept] = OrderedDict()
"""By the identity of the catalogue, which is kept here: it stays the same until the cluster's nodes change."""
_MOST_CATALOGUES = 32


def image_views(catalogue: Catalogue) -> tuple[ImageView, ...]:
    """Return the images as the form shows them, in the catalogue's order."""
    kept = _VIEWS.get(id(catalogue))
    if kept is None:
        views = tuple(_image(image, catalogue) for image in catalogue.images.values())
        kept = _VIEWS[id(catalogue)] = _Kept(catalogue=catalogue, views=views)
        if len(_VIEWS) > _MOST_CATALOGUES:
            _VIEWS.popitem(last=False)
    return kept.views


def _image(image: Image, catalogue: Catalogue) -> ImageView:
    found: dict[str, list[str]] = {}
    for slug, gpu in catalogue.gpus.items():
        if text := misfit_text(image, gpu):
            found.setdefault(text, []).append(slug)
    return ImageView(
        slug=image.slug,
        display_name=image.display_name,
        description=image.description,
        made_for=made_for(image.vendors),
        misfits=tuple(MisfitView(text=text, gpus=tuple(slugs)) for text, slugs in found.items()),
    )
