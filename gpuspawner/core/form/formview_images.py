"""The images of the form, with the GPU types that each cannot use, and the one that a person may name."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gpuspawner.core.catalog.catalogue import Catalogue, CustomImages, Image
from gpuspawner.core.catalog.image_reference import EXAMPLE
from gpuspawner.core.catalog.image_use import made_for, misfit_text
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.formview_image_types import CustomImageView, ImageView, MisfitView
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.text.language import gettext, spoken
from gpuspawner.core.text.sentences import any_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    catalogue: Catalogue
    views: tuple[ImageView, ...]


_VIEWS: OrderedDict[tuple[int, str], _Kept] = OrderedDict()
"""By the identity of the catalogue, which is kept here, and the language's tag: a catalogue stays the same until the
cluster's nodes change."""
_MOST_CATALOGUES = 32


def image_views(catalogue: Catalogue) -> tuple[ImageView, ...]:
    """Return the images as the form shows them, in the catalogue's order."""
    key = id(catalogue), spoken().tag
    kept = _VIEWS.get(key)
    if kept is None:
        views = tuple(_image(image, catalogue) for image in catalogue.images.values())
        kept = _VIEWS[key] = _Kept(catalogue=catalogue, views=views)
        if len(_VIEWS) > _MOST_CATALOGUES:
            _VIEWS.popitem(last=False)
    return kept.views


def custom_image_view(custom: CustomImages | None, written: str) -> CustomImageView | None:
    """Return the image that a person names as the form shows it, None where that is not allowed.

    :param written: what stands in its field.
    """
    if custom is None:
        return None
    needed = custom.description or gettext("Any image with JupyterHub's single-user server in it.")
    if custom.registries:
        help_text = gettext("Written as registry/name:tag, from {origins}.", origins=any_of(custom.registries))
    else:
        help_text = gettext("Written as registry/name:tag, such as {example}.", example=EXAMPLE)
    return CustomImageView(
        card=ImageView(slug="", display_name=gettext("Another image"), description=needed),
        help=help_text,
        complaint=_complaint(custom, written.strip()),
    )


def _complaint(custom: CustomImages, written: str) -> str:
    problems = Problems()
    problems.reference("custom_image", written, allowed=custom)
    try:
        problems.raise_any()
    except SelectionError as error:
        return error.problems[0].message
    return ""


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
