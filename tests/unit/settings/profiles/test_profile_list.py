from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.settings.profiles.notes import (
    ACCESS_KEY,
    IMAGE_BUILDING,
    MARKUP,
    TEAMS,
    UNREAD_KEY,
    NoteList,
)
from gpuspawner.settings.profiles.overrides import SpawnerTraits
from gpuspawner.settings.profiles.profile_list import Profile, ProfileAccess, ProfileListError, ProfileListParser


@pytest.fixture
def parser(traits: SpawnerTraits, notes: NoteList) -> ProfileListParser:
    return ProfileListParser(slugify=traits.slugify, sorts_keys=True, notes=notes)


def parse_one(parser: ProfileListParser, **keys: Any) -> Profile:
    (profile,) = parser.parse([{"display_name": "GPU server", **keys}])
    return profile


def test_a_profile_is_read_as_kubespawner_reads_it(parser: ProfileListParser):
    profile = parse_one(parser, description="d", kubespawner_override={"image": "q/x"}, slug="Own")
    assert (profile.slug, profile.display_name, profile.description, profile.overrides) == (
        "Own",
        "GPU server",
        "d",
        {"image": "q/x"},
    )


def test_a_slug_comes_from_the_display_name(parser: ProfileListParser):
    assert parse_one(parser).slug == "gpu-server"


@pytest.mark.parametrize(
    ("flags", "default"),
    [
        pytest.param([{}, {}], 0, id="first"),
        pytest.param([{}, {"default": True}], 1, id="marked"),
        pytest.param([{"default": True}, {"default": True}], 0, id="first of two marked"),
    ],
)
def test_one_profile_is_the_default(parser: ProfileListParser, flags: list[dict[str, bool]], default: int):
    profiles = parser.parse([{"display_name": str(number), **each} for number, each in enumerate(flags)])
    assert [number for number, each in enumerate(profiles) if each.is_default] == [default]


def test_a_dict_of_profiles_is_sorted_by_key(parser: ProfileListParser):
    profiles = parser.parse({"b": {"display_name": "B"}, "a": {"display_name": "A"}})
    assert [each.display_name for each in profiles] == ["A", "B"]


OPTIONS = {
    "z": {"choices": {"two": {}, "one": {"display_name": "One"}}},
    "a": {"display_name": "Size", "choices": {"x": {}, "w": {"default": True}}},
}


@pytest.mark.parametrize(
    ("sorts_keys", "expected"),
    [
        pytest.param(True, [("a", ["w", "x"], "w"), ("z", ["one", "two"], "one")], id="helm"),
        pytest.param(False, [("z", ["two", "one"], "two"), ("a", ["x", "w"], "w")], id="python"),
    ],
)
def test_helm_sorts_options_and_choices(traits: SpawnerTraits, notes: NoteList, sorts_keys: bool, expected: Any):
    parser = ProfileListParser(slugify=traits.slugify, sorts_keys=sorts_keys, notes=notes)
    options = parse_one(parser, profile_options=OPTIONS).options
    assert [(each.key, [choice.key for choice in each.choices], each.default) for each in options] == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param({}, ProfileAccess(), id="open"),
        pytest.param({"allowed_groups": None}, ProfileAccess(), id="null"),
        pytest.param({"allowed_groups": ["a", 1]}, ProfileAccess(groups=("a", "1")), id="groups"),
        pytest.param({"allowed_users": ["u"]}, ProfileAccess(users=("u",)), id="users"),
        pytest.param({"allowed_groups": ["a"], "allowed_teams": ["b"]}, ProfileAccess(groups=("a", "b")), id="teams"),
        pytest.param({"allowed_groups": []}, ProfileAccess(groups=()), id="no user"),
    ],
)
def test_access_is_read_of_profiles_and_choices(parser: ProfileListParser, keys: Any, expected: ProfileAccess):
    profile = parse_one(parser, **keys, profile_options={"o": {"choices": {"c": keys}}})
    assert [profile.access, profile.options[0].choices[0].access] == [expected, expected]
    assert expected.admits_no_user == (keys == {"allowed_groups": []})


@pytest.mark.parametrize(
    ("keys", "cause", "where", "field"),
    [
        pytest.param({"badge": "new"}, UNREAD_KEY, "GPU server", "badge", id="unread key"),
        pytest.param({"required_roles": ["x"]}, ACCESS_KEY, "GPU server", "required_roles", id="looks like access"),
        pytest.param({"author": "x"}, UNREAD_KEY, "GPU server", "author", id="author"),
        *(
            pytest.param({key: "x"}, ACCESS_KEY, "GPU server", key, id=key)
            for key in (
                *("access", "members", "visibility", "entitlement", "authorized", "owners"),
                *("audience", "hidden", "tenant", "course_id", "projects"),
            )
        ),
        pytest.param({"allowed_teams": ["x"]}, TEAMS, "GPU server", "allowed_teams", id="teams"),
        pytest.param({"description": "<b>x</b>"}, MARKUP, "GPU server", "description", id="markup"),
        pytest.param(
            {"profile_options": {"o": {"choices": {"c": {"only_users": 1}}}}},
            ACCESS_KEY,
            "GPU server · o: c",
            "only_users",
            id="access in a choice",
        ),
        pytest.param(
            {"profile_options": {"o": {"unlisted_choice": {"enabled": True, "groups": 1}}}},
            ACCESS_KEY,
            "GPU server · o",
            "groups",
            id="access in a text field",
        ),
        pytest.param(
            {"profile_options": {"o": {"dynamic_image_building": {"enabled": True}}}},
            IMAGE_BUILDING,
            "GPU server · o",
            "dynamic_image_building",
            id="image building",
        ),
    ],
)
def test_keys_that_kubespawner_does_not_read_are_noted(
    parser: ProfileListParser, notes: NoteList, keys: Any, cause: Any, where: str, field: str
):
    parse_one(parser, **keys)
    assert [(each.cause, each.profile, each.field) for each in notes.notes] == [(cause, where, field)]


@pytest.mark.parametrize(
    ("profile_list", "path", "message"),
    [
        pytest.param("x", (), "must be a list or mapping of profiles", id="text"),
        pytest.param([], (), "has no profiles", id="empty"),
        pytest.param(["x"], (0,), "must be a mapping", id="no mapping"),
        pytest.param(
            {"a": {}}, ("a",), "has no display_name, without which KubeSpawner starts no server", id="no name"
        ),
        pytest.param(
            [{"display_name": 2026}], (0, "display_name"), "must be a text, so it needs quotes", id="number as name"
        ),
        pytest.param(
            [{"display_name": "P", "kubespawner_override": {"image": len}}],
            (0, "kubespawner_override", "image"),
            "is a Python function: its values are not known before a server starts",
            id="function",
        ),
        pytest.param(
            [{"display_name": "P", "kubespawner_override": {"tolerations": [object()]}}],
            (0, "kubespawner_override", "tolerations", 0),
            "is a Python object (object), which settings cannot contain",
            id="object",
        ),
        pytest.param(
            [{"display_name": "P", "profile_options": {"o": {"choices": ["x"]}}}],
            (0, "profile_options", "o", "choices"),
            "must be a mapping",
            id="list of choices",
        ),
        pytest.param(
            [{"display_name": "P", "allowed_groups": "tutors"}],
            (0, "allowed_groups"),
            "must be a list of names",
            id="groups as text",
        ),
    ],
)
def test_a_broken_profile_list_is_refused_with_its_path(
    parser: ProfileListParser, profile_list: Any, path: Any, message: str
):
    with pytest.raises(ProfileListError) as caught:
        parser.parse(profile_list)
    assert (caught.value.path, caught.value.problems[0].message) == (path, message)
