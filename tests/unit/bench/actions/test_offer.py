"""The forms that are compared offer the same."""

from __future__ import annotations

from typing import Any

from bench.actions import offer


def entries(profile: dict[str, Any], name: str) -> list[str]:
    return [each["display_name"] for each in profile["profile_options"][name]["choices"].values()]


def test_each_form_offers_the_same_gpus_and_numbers_of_them():
    offered = offer.catalog().gpus.values()
    (single,) = offer.one_profile()
    numbers = {each.slug: [str(number) for number in range(1, each.max_count + 1)] for each in offered}

    assert {each["slug"]: entries(each, "count") for each in offer.profile_of_each_type()} == numbers
    assert entries(single, "gpu") == [
        offer.name_of_both(each.display_name, number) for each in offered for number in numbers[each.slug]
    ]
    assert len(numbers) == 24


def test_each_profile_offers_all_images():
    images = [each.display_name for each in offer.catalog().images.values()]

    assert len(images) == 20
    for profile in [*offer.profile_of_each_type(), *offer.one_profile()]:
        assert entries(profile, "image") == images
