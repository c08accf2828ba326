from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.catalogue import Catalogue, GPUType, Image
from gpuspawner.core.formview_images import image_views
from gpuspawner.core.formview_types import ImageView, MisfitView
from gpuspawner.core.platforms import platform_of

OLD = (platform_of({"nvidia.com/cuda.driver-version.major": "535"}),)
GPUS = {
    slug: GPUType(slug=slug, display_name=slug, resource="nvidia.com/gpu", vendor="nvidia", platforms=platforms)
    for slug, platforms in (("old-1", OLD), ("new", ()), ("old-2", OLD))
} | {"mi210": GPUType(slug="mi210", display_name="MI210", resource="amd.com/gpu", vendor="amd")}
CATALOGUE = Catalogue(
    images={
        "new": Image(slug="new", display_name="New", image="n:1", description="D", cuda="13.0", vendors=("nvidia",)),
        "any": Image(slug="any", display_name="Any", image="a:1"),
    },
    cpu=None,
    memory=None,
    gpus=GPUS,
)


def test_types_that_an_image_cannot_use_are_put_together_by_the_reason():
    assert image_views(CATALOGUE) == (
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


def test_another_catalogue_of_the_same_images_is_looked_at_anew():
    image_views(CATALOGUE)
    upgraded = replace(CATALOGUE, gpus={slug: replace(gpu, platforms=()) for slug, gpu in GPUS.items()})
    assert [misfit.gpus for misfit in image_views(upgraded)[0].misfits] == [("mi210",)]


def test_a_catalogue_that_stays_is_looked_at_once():
    assert image_views(CATALOGUE) is image_views(CATALOGUE)
