"""Lists of many images and GPU types: what the server renders of them, for the script and without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bs4 import BeautifulSoup

from gpuspawner.core.form.views import FormView, VendorView
from gpuspawner.hub.form.rendering import render
from tests.unit.hub.views import T4, VIEW

FEW_GPUS, FEW_IMAGES = 8, 6


def with_gpus(number: int) -> FormView:
    types = tuple(replace(T4, slug=f"t4-{each}") for each in range(number))
    return replace(VIEW, vendors=(VendorView(slug="nvidia", display_name="NVIDIA", types=types),))


def with_images(number: int) -> FormView:
    images = tuple(replace(VIEW.images[0], slug=f"image-{each}") for each in range(number))
    return replace(VIEW, images=images, vendors=VIEW.vendors[:1])


def page(view: FormView) -> BeautifulSoup:
    return BeautifulSoup(render(view), "html.parser")


@pytest.mark.parametrize(("number", "is_there"), [(FEW_GPUS, False), (FEW_GPUS + 1, True)], ids=["few", "many"])
def test_many_gpu_types_have_a_search_an_order_and_a_filter(number: int, is_there: bool):
    soup = page(with_gpus(number))
    labels = [each["aria-label"] for each in soup.select("#gpuspawner-gpus .gs-find :is(input[type=search], select)")]
    assert labels == (["Find a GPU", "Order of the GPUs"] if is_there else [])
    assert [each.text for each in soup.select("#gpuspawner-gpus [data-free]")] == (["Free now"] if is_there else [])


@pytest.mark.parametrize(("number", "is_there"), [(FEW_IMAGES, False), (FEW_IMAGES + 1, True)], ids=["few", "many"])
def test_many_images_are_rows_with_a_search_and_few_are_cards(number: int, is_there: bool):
    soup = page(with_images(number))
    assert len(soup.select("#gpuspawner-images .gs-find input[type=search]")) == is_there
    assert len(soup.select(f"#gpuspawner-images .gs-{'rows' if is_there else 'cards'} > label")) == number


@pytest.mark.parametrize(
    ("view", "is_there"),
    [
        pytest.param(with_gpus(FEW_GPUS), False, id="few GPU types"),
        pytest.param(with_gpus(FEW_GPUS + 1), True, id="many GPU types"),
        pytest.param(with_images(FEW_IMAGES), False, id="few images"),
        pytest.param(with_images(FEW_IMAGES + 1), True, id="many images"),
        pytest.param(VIEW, True, id="two vendors"),
    ],
)
def test_script_and_styles_of_lists_are_sent_only_where_there_is_something_to_find(view: FormView, is_there: bool):
    html = render(view)
    assert ("function isFound" in html) is is_there
    assert (".gs-images" in html.partition("</style>")[0].partition("Search, filters")[2]) is is_there


def test_without_the_script_all_rows_are_there_and_nothing_that_needs_it():
    soup = page(replace(with_gpus(24), images=with_images(20).images))
    assert [each.has_attr("hidden") for each in soup.select(".gs-find")] == [True, True]
    assert (len(soup.select("input[name=gpu]")), len(soup.select("input[name=image]"))) == (25, 20)
    assert soup.select("label[hidden], .gs-find [name]") == []


def test_a_part_of_a_card_stands_under_it_and_says_what_is_counted():
    types = (
        T4,
        replace(T4, slug="part", unit="mig", unit_text="MIG slice", card="t4"),
        replace(T4, slug="alone", unit="shared"),
    )
    soup = page(replace(VIEW, vendors=(VendorView(slug="x", display_name="X", types=types),)))
    rows = [(each.get("class"), each.get("data-unit")) for each in soup.select(".gs-vendor label:has(input)")]
    assert rows == [(None, None), (["gs-under"], "mig"), (None, "shared")]


def test_the_list_of_headings_shows_what_there_is_to_choose():
    headings = [(each.name, each.text) for each in page(VIEW).select("legend > :is(h2, h3)")]
    vendors = [("h3", vendor.display_name) for vendor in VIEW.vendors]
    assert headings == [("h2", "GPU"), *vendors, ("h2", "CPU and memory"), ("h2", "Image")]
