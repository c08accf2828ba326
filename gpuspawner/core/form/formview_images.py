"""The images of the form, with the GPU types that each cannot use, and the one that a person may name."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gpuspawner.core.catalog.catalogue import Catalog, CustomImages, Image
from gpuspawner.core.catalog.image_reference import EXAMPLE_REFERENCE
from gpuspawner.core.catalog.image_use import describe_vendors, explain_misfit
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.formview_image_types import CustomImageView, ImageView, MisfitView
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.text.language import get_language, gettext
from gpuspawner.core.text.sentences import join_with_or


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedViews:
    catalogue: Catalog
    views: tuple[ImageView, ...]


_IMAGE_VIEWS: OrderedDict[tuple[int, str], _CachedViews] = OrderedDict()
"""By the identity of the catalogue, which is kept here, and the language's tag: a catalogue stays the same until the
cluster's nodes change."""
_MAX_CATALOGS = 32


def build_image_views(catalogue: Catalog) -> tuple[ImageView, ...]:
    """Return the images as the form shows them, in the catalogue's order."""
    key = id(catalogue), get_language().tag
    kept = _IMAGE_VIEWS.get(key)
    if kept is None:
        views = tuple(_build_image_view(image, catalogue) for image in catalogue.images.values())
        kept = _IMAGE_VIEWS[key] = _CachedViews(catalogue=catalogue, views=views)
        if len(_IMAGE_VIEWS) > _MAX_CATALOGS:
            _IMAGE_VIEWS.popitem(last=False)
    return kept.views


def build_custom_image_view(custom: CustomImages | None, written: str) -> CustomImageView | None:
    """Return the image that a person names as the form shows it, None where that is not allowed.

    :param written: what stands in its field.
    """
    if custom is None:
        return None
    needed = custom.description or gettext("Any image with JupyterHub's single-user server in it.")
    if custom.registries:
        help_text = gettext("Written as registry/name:tag, from {origins}.", origins=join_with_or(custom.registries))
    else:
        help_text = gettext("Written as registry/name:tag, such as {example}.", example=EXAMPLE_REFERENCE)
    return CustomImageView(
        card=ImageView(slug="", display_name=gettext("Another image"), description=needed),
        help=help_text,
        complaint=_find_complaint(custom, written.strip()),
    )


def _find_complaint(custom: CustomImages, written: str) -> str:
    problems = Problems()
    problems.check_reference("custom_image", written, custom_images=custom)
    try:
        problems.raise_any()
    except SelectionError as error:
        return error.problems[0].message
    return ""


def _build_image_view(image: Image, catalogue: Catalog) -> ImageView:
    found: dict[str, list[str]] = {}
    for slug, gpu in catalogue.gpus.items():
        if text := explain_misfit(image, gpu):
            found.setdefault(text, []).append(slug)
    return ImageView(
        slug=image.slug,
        display_name=image.display_name,
        description=image.description,
        made_for=describe_vendors(image.vendors),
        misfits=tuple(MisfitView(text=text, gpus=tuple(slugs)) for text, slugs in found.items()),
    )
