"""The data that the page's script gets."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gpuspawner.core.form import build
from gpuspawner.core.form.views import GPUTypeView, ProfileOptionView, ProfileView, VerdictView
from tests.unit.core.form.test_build import CATALOG, INVENTORY
from tests.unit.islands import build_view, faults, island_of

VIEW = build_view(CATALOG, INVENTORY)


def test_every_attribute_of_a_gpu_type_that_may_change_while_nodes_stay_is_sent():
    told_by_page_alone = {
        *("vendor", "card", "memory_text", "unit", "unit_text", "badges", "caution", "description", "note"),
        *("largest", "waiting"),  # in details_text
    }
    sent = island_of(VIEW)["gpus"][0]
    assert {each.name for each in fields(GPUTypeView)} == told_by_page_alone | sent.keys()


SIZES = ProfileOptionView(field="profile-option-p--size", label="Size", choices=(("s", "S"), ("l", "L")), picked="l")
IMAGES = ProfileOptionView(
    field="profile-option-p--image",
    label="Image",
    choices=(),
    picked="",
    text_field="profile-option-p--image--unlisted-choice",
    text_label="Image",
    text="quay.io/a:1",
)


@pytest.mark.parametrize(
    ("options", "expected_fields"),
    [
        pytest.param((), {}, id="no option"),
        pytest.param((SIZES,), {"profile-option-p--size": "l"}, id="list"),
        pytest.param((IMAGES,), {"profile-option-p--image--unlisted-choice": "quay.io/a:1"}, id="text field"),
        pytest.param(
            (SIZES, replace(IMAGES, choices=(("torch", "Torch"), ("", "Other…")))),
            {
                "profile-option-p--size": "l",
                "profile-option-p--image": "",
                "profile-option-p--image--unlisted-choice": "quay.io/a:1",
            },
            id="list and text field",
        ),
    ],
)
@pytest.mark.parametrize("outlook", [None, VerdictView(outcome="now", sentence="Starts now")], ids=["unknown", "now"])
def test_the_card_of_a_profile_is_described(options: Any, expected_fields: Any, outlook: VerdictView | None):
    profile = ProfileView(slug="p", display_name="P", summary="4 CPUs", options=options, outlook=outlook)
    view = build.add_profiles(VIEW, (profile, replace(profile, slug="q", is_denied=True)), problem="")
    island = island_of(view)
    expected = {
        "slug": "p",
        "is_denied": False,
        "outlook": {"outcome": "now", "sentence": "Starts now"} if outlook else None,
        "summary": "4 CPUs",
        "fields": expected_fields,
    }
    assert island["profiles"] == [expected, {**expected, "slug": "q", "is_denied": True}]
    assert faults(island) == []
