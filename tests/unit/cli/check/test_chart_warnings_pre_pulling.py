from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.chart_warnings import find_unpulled_images
from gpuspawner.core.catalog.model import Image
from tests.unit.cli_support import section, written

IMAGES = {
    slug: Image(slug=slug, display_name=slug, image=reference)
    for slug, reference in (("a", "quay.io/x/a:1"), ("b", "localhost:5000/b"), ("c", "q/c@sha256:00"))
}
BLOCK = """\
prePuller:
  extraImages:
    a:
      name: quay.io/x/a
      tag: '1'
    b:
      name: localhost:5000/b
      tag: latest
"""


def test_the_values_that_have_images_pulled_are_given(tmp_path: Path):
    (found,) = find_unpulled_images(written(tmp_path, section("images: {a: {image: quay.io/x/a:1}}")), IMAGES)
    assert (found.severity, found.more, found.place and found.place.line) == ("hint", BLOCK, 5)


@pytest.mark.parametrize(
    "beside",
    [
        "singleuser: {image: {name: quay.io/x/a, tag: '1'}}",
        "prePuller: {extraImages: {z: {name: quay.io/x/a, tag: '1'}}}",
        "prePuller: {hook: {enabled: false}, continuous: {enabled: false}}",
    ],
)
def test_nothing_is_said_of_what_is_pulled_or_where_nothing_is(beside: str, tmp_path: Path):
    assert list(find_unpulled_images(written(tmp_path, section("", beside=beside)), {"a": IMAGES["a"]})) == []
