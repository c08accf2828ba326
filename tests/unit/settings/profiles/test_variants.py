from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.errors import SettingsError
from gpuspawner.settings.profiles.variants import ImageChoice, ProfileVariant, parse_profile_list


def choices(**named: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {"display_name": key.title(), "kubespawner_override": override, "default": override.pop("default", False)}
        for key, override in named.items()
    }


def test_a_profile_without_options_is_one_variant():
    found = parse_profile_list(
        [{"display_name": "Small", "description": "D", "kubespawner_override": {"cpu_limit": 1}}]
    )
    assert found.variants == [ProfileVariant(name="Small", description="D", overrides={"cpu_limit": 1})]


def test_profiles_of_a_dict_come_in_the_order_of_its_keys():
    found = parse_profile_list({"b": {"display_name": "B"}, "a": {"display_name": "A", "default": True}})
    assert [(each.name, each.is_default) for each in found.variants] == [("A", True), ("B", False)]


@pytest.mark.parametrize(
    ("profile", "note"),
    [
        ({"allowed_groups": ["gpu"], "slug": "s"}, "P: allowed_groups is no key of KubeSpawner"),
        ({"description": "The <b>large</b> one"}, "P: the description has HTML in it"),
    ],
)
def test_what_would_be_lost_without_a_word_is_told(profile: dict[str, Any], note: str):
    (told,) = parse_profile_list([{"display_name": "P", **profile}]).notes
    assert told.startswith(note)


def test_a_description_may_compare_numbers():
    assert parse_profile_list([{"display_name": "P", "description": "for < 4 GB, > 2 GB"}]).notes == []


def test_a_profile_is_called_by_its_slug_or_its_place():
    assert [each.name for each in parse_profile_list([{"slug": "s"}, {}]).variants] == ["s", "Profile 2"]


def test_an_option_of_images_alone_makes_images_and_the_default_of_the_variant():
    images = choices(old={"image": "i:1"}, new={"image": "i:2", "default": True})
    found = parse_profile_list([{"display_name": "P", "profile_options": {"image": {"choices": images}}}])
    assert found.images == [ImageChoice(name="Old", reference="i:1"), ImageChoice(name="New", reference="i:2")]
    assert found.variants == [ProfileVariant(name="P", overrides={"image": "i:2"})]


def test_choices_of_another_option_are_variants_the_default_first():
    sizes = choices(big={"mem_limit": "8G"}, small={"mem_limit": "1G", "default": True})
    profile = {
        "display_name": "P",
        "default": True,
        "kubespawner_override": {"cpu_limit": 2, "mem_limit": "2G"},
        "profile_options": {"size": {"choices": sizes}},
    }
    assert parse_profile_list([profile]).variants == [
        ProfileVariant(name="P, Small", overrides={"cpu_limit": 2, "mem_limit": "1G"}, is_default=True),
        ProfileVariant(name="P, Big", overrides={"cpu_limit": 2, "mem_limit": "8G"}),
    ]


def test_options_multiply_as_long_as_that_makes_presets():
    cpu = {"display_name": "CPU", "choices": choices(**{f"c{n}": {"cpu_limit": n} for n in range(1, 11)})}
    memory = {"display_name": "Memory", "choices": choices(**{f"m{n}": {"mem_limit": f"{n}G"} for n in range(1, 12)})}
    found = parse_profile_list([{"display_name": "P", "profile_options": {"cpu": cpu, "memory": memory}}])
    assert len(found.variants) == 10
    assert found.notes == ["P: Memory makes more than 100 combinations; its default is kept."]
    assert {each.overrides["mem_limit"] for each in found.variants} == {"1G"}


def test_what_people_may_write_themselves_is_noted():
    option = {"display_name": "Image", "unlisted_choice": {"enabled": True}}
    found = parse_profile_list([{"display_name": "P", "profile_options": {"image": option}}])
    assert found.notes == ["P: Image lets people write a value of their own, which is left out."]


def unlisted(**keys: Any) -> dict[str, Any]:
    choice = {"enabled": True, "kubespawner_override": {"image": "{value}"}, **keys}
    return {"display_name": "P", "profile_options": {"image": {"display_name": "Image", "unlisted_choice": choice}}}


def test_people_who_may_write_any_image_may_do_so_here():
    found = parse_profile_list([unlisted(display_name="Other image")])
    assert (found.custom_images, found.notes) == (True, [])
    assert parse_profile_list([unlisted(enabled=False)]).custom_images is False


def test_how_an_image_has_to_be_written_is_noted():
    found = parse_profile_list([unlisted(validation_regex="^.+:.+$")])
    assert found.custom_images is True
    assert found.notes == ["P: Image wants images written as ^.+:.+$; here any reference of an image will do."]


@pytest.mark.parametrize("pattern", ["^jupyter/.+:.+$", "(", "docker|ghcr"])
def test_people_who_may_write_only_some_images_are_not_given_all(pattern: str):
    found = parse_profile_list([unlisted(validation_regex=pattern)])
    assert found.custom_images is False
    assert found.notes == [
        f"P: Image takes only images that match {pattern}, which is left out: allow custom_images with registries."
    ]


@pytest.mark.parametrize("override", [{}, {"image": "quay.io/{value}"}, {"image": "{value}", "cpu_limit": 1}, None])
def test_people_who_may_write_anything_else_are_noted(override: Any):
    found = parse_profile_list([unlisted(kubespawner_override=override)])
    assert found.custom_images is False
    assert found.notes == ["P: Image lets people write a value of their own, which is left out."]


@pytest.mark.parametrize("value", [None, "text", 7, [1], lambda _spawner: []])
def test_what_is_no_profile_list_is_refused(value: object):
    with pytest.raises(SettingsError, match="profile_list: the profile list must be a list of mappings"):
        parse_profile_list(value)


@pytest.mark.parametrize(
    "broken", [{"profile_options": []}, {"profile_options": {"x": 1}}, {"kubespawner_override": 1}]
)
def test_what_is_broken_inside_a_profile_is_passed_over(broken: dict[str, Any]):
    assert parse_profile_list([{"display_name": "P", **broken}]).variants == [ProfileVariant(name="P", overrides={})]
