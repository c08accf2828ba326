from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Catalog, CustomImages, GPUType, Image
from gpuspawner.core.catalog.software import index_images, read_platform
from gpuspawner.core.form.policy import build_custom_image_view, build_image_views
from gpuspawner.core.form.views import CustomImageView, ImageView, MisfitView

OLD = (read_platform({"nvidia.com/cuda.driver-version.major": "535"}),)
GPUS = {
    slug: GPUType(slug=slug, display_name=slug, resource="nvidia.com/gpu", vendor="nvidia", platforms=platforms)
    for slug, platforms in (("old-1", OLD), ("new", ()), ("old-2", OLD))
} | {"mi210": GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd")}
CATALOG = Catalog(
    images={
        "new": Image(slug="new", display_name="New", image="n:1", description="D", cuda="13.0", vendors=("nvidia",)),
        "any": Image(slug="any", display_name="Any", image="a:1"),
    },
    cpu=None,
    memory=None,
    gpus=GPUS,
)


def test_types_that_an_image_cannot_use_are_put_together_by_the_reason():
    assert build_image_views(CATALOG) == (
        ImageView(
            slug="new",
            display_name="New",
            description="D",
            made_for="NVIDIA GPUs",
            misfits=(
                MisfitView(text="CUDA 13.0 needs driver 580 or newer; these nodes have 535.", gpus=("old-1", "old-2")),
                MisfitView(text="New is made for NVIDIA GPUs.", gpus=("mi210",)),
            ),
        ),
        ImageView(slug="any", display_name="Any", description=""),
    )


def test_an_upgrade_of_the_driver_makes_an_image_fit():
    upgraded = replace(CATALOG, gpus={slug: replace(gpu, platforms=()) for slug, gpu in GPUS.items()})
    assert [misfit.gpus for misfit in build_image_views(upgraded)[0].misfits] == [("mi210",)]


def test_the_image_that_a_person_names_is_one_more_card():
    assert build_custom_image_view(CustomImages(), "") == CustomImageView(
        card=ImageView(
            slug="",
            display_name="Custom image",
            description="Any image that includes JupyterHub's single-user server.",
        ),
        help="Format: registry/name:tag, such as quay.io/jupyter/scipy-notebook:2026-10-01.",
    )


def test_it_says_what_the_admin_said_and_where_it_may_come_from():
    view = build_custom_image_view(CustomImages(registries=("quay.io", "ghcr.io"), description="D"), "")
    assert (view.card.description, view.help) == ("D", "Format: registry/name:tag, from quay.io or ghcr.io.")


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (" quay.io/x ", ""),
        ("  ", ""),
        ("python", "The image must come from quay.io, not 'docker.io/library/python'."),
    ],
)
def test_it_says_what_is_wrong_with_what_is_written(written: str, complaint: str):
    view = build_custom_image_view(CustomImages(registries=("quay.io",)), written)
    assert view.complaint == complaint


@pytest.mark.parametrize("written", ["n:1", " docker.io/library/n:1 "])
def test_a_reference_of_a_listed_image_misses_the_types_that_the_listed_image_misses(written: str):
    custom = CustomImages(listed=index_images(CATALOG.images.values()))
    view = build_custom_image_view(custom, written, gpus=GPUS.values())
    assert [misfit.gpus for misfit in view.card.misfits] == [("old-1", "old-2"), ("mi210",)]


def test_a_reference_that_no_image_describes_goes_with_every_type():
    custom = CustomImages(listed=index_images(CATALOG.images.values()))
    view = build_custom_image_view(custom, "n:2", gpus=GPUS.values())
    assert view.card.misfits == ()


def test_where_that_is_not_allowed_there_is_no_such_card():
    assert build_custom_image_view(None, "quay.io/x") is None
