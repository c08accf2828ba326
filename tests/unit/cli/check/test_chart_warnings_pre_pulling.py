from __future__ import annotations

from pathlib import Path

import pytest

from gpuspawner.cli.check.chart_warnings import find_unoffered_images, find_unpulled_images
from gpuspawner.cli.values.helm_values import merge_settings
from gpuspawner.core.catalog.model import Image
from gpuspawner.settings import Settings
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


PULLED = """
prePuller:
  extraImages:
    offered: {name: q/lab, tag: "1"}
    latest: {name: q/new, tag: latest}
    sidecar: {name: q/proxy, tag: "1"}
    profile: {name: q/profile, tag: "1"}
    other: {name: q/other, tag: "1"}
singleuser:
  extraContainers: [{name: proxy, image: 'q/proxy:1'}]
  profileList:
    - {display_name: A, kubespawner_override: {image: 'q/lab:1'}}
    - display_name: B
      profile_options: {image: {choices: {x: {kubespawner_override: {image: 'q/profile:1'}}}}}
"""
OTHER = "prePuller.extraImages.other"
OFFERED = "images: {lab: {image: 'q/lab:1'}, new: {image: q/new}}"


@pytest.mark.parametrize(
    ("settings", "more", "expected"),
    [
        pytest.param(OFFERED, "", [OTHER], id="no user can choose it"),
        pytest.param("cpu: {max: 4}", "", [], id="no images in the settings"),
        pytest.param(f"{OFFERED}\ncustom_images: {{allowed: true}}", "", [], id="users name images"),
        pytest.param(OFFERED, "  hook: {enabled: false}\n  continuous: {enabled: false}\n", [], id="no puller"),
    ],
)
def test_images_that_are_pulled_and_never_offered_are_reported(
    settings: str, more: str, expected: list[str], tmp_path: Path
):
    pulled = PULLED.replace("prePuller:\n", f"prePuller:\n{more}")
    values = written(tmp_path, section(settings, beside=pulled))
    configured = Settings.parse(merge_settings(values)).build_configured()
    assert [each.path for each in find_unoffered_images(values, configured)] == expected
