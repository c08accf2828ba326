"""A choice among the profiles of KubeSpawner is refused in words, before KubeSpawner fails because of it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.text.i18n import use_language
from gpuspawner.hub.admission.profiles import check_profile, find_profile_name, format_profile_name
from gpuspawner.hub.errors import RefusedProfile, RefusedStart
from gpuspawner.hub.request.languages import load_languages

SIZE = {"choices": {"small": {"display_name": "Small", "default": True}, "big": {"display_name": "Big"}}}
TAG = {
    "choices": {"lab": {"default": True}},
    "unlisted_choice": {"enabled": True, "validation_regex": "^a/[a-z]+$"},
}
OPEN = {"choices": {"lab": {"default": True}}, "unlisted_choice": {"enabled": True}}
PROFILES: list[dict[str, Any]] = [
    {"display_name": "Small server", "slug": "small", "profile_options": {"size": SIZE, "image": OPEN, "tag": TAG}},
    {"display_name": "Large server", "slug": "large", "default": True, "profile_options": {"size": SIZE}},
    {"display_name": "Bare", "slug": "bare", "profile_options": None},
]


def accept(_: object) -> None:
    """Stand for KubeSpawner's check of options that it accepts."""


def refuse(_: object) -> None:
    raise ValueError("Received unlisted_choice for image without being enabled.")


def refuse_type(_: object) -> None:
    raise TypeError("expected string or bytes-like object")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        pytest.param({"profile": "small"}, "Small server", id="chosen"),
        pytest.param({"profile": "small", "size": "big"}, "Small server", id="a choice in it"),
        pytest.param({"profile": "small", "size": ""}, "Small server", id="an empty choice"),
        pytest.param({"profile": "small", "image": "lab", "image--unlisted-choice": ""}, "Small server", id="listed"),
        pytest.param({"profile": "small", "image--unlisted-choice": "a/b"}, "Small server", id="an unlisted one"),
        pytest.param(
            {"profile": "small", "image": "unlisted-choice", "image--unlisted-choice": "a/b"}, "Small server",
            id="an unlisted one as the form sends it",
        ),
        pytest.param({"profile": "bare", "size": "huge"}, "Bare", id="a choice for another profile"),
        pytest.param({"size": "big", "token": [1]}, "Large server", id="the default"),
        pytest.param({"profile": ""}, "Large server", id="empty"),
        pytest.param({"profile": None}, "Large server", id="null"),
        pytest.param({}, "Large server", id="nothing"),
        pytest.param(None, "Large server", id="no options"),
        pytest.param(["small"], "Large server", id="options that are no object"),
    ],
)  # fmt: skip
def test_a_choice_that_is_offered_has_the_name_of_its_profile(options: Any, name: str):
    assert format_profile_name(check_profile(options, PROFILES, validate=accept)) == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"profile": "huge"}, "There is no profile 'huge'. Offered: small, large, bare.", id="unknown"),
        pytest.param({"profile": ["small"]}, "There is no profile", id="list"),
        pytest.param({"profile": {"small": 1}}, "There is no profile", id="object"),
        pytest.param({"profile": 5}, "There is no profile 5.", id="number"),
        pytest.param({"profile": "small", "size": "huge"}, "size: there is no entry 'huge'.", id="unknown choice"),
        pytest.param({"profile": "small", "size": ["big"]}, "size: there is no entry", id="choice that is a list"),
        pytest.param(
            {"profile": "small", "size": {"big": 1}}, "size: there is no entry", id="choice that is an object"
        ),
        pytest.param(
            {"profile": "small", "image": "own"}, "image: there is no entry 'own'.", id="unlisted in the list"
        ),
        pytest.param({"size": "huge"}, "size: there is no entry 'huge'.", id="unknown choice of the default"),
        pytest.param(
            {"size--unlisted-choice": "64G"}, "size: this text cannot be used.", id="unlisted one of the default"
        ),
        pytest.param(
            {"profile": "small", "tag--unlisted-choice": "x/y"}, "tag: this text cannot be used.", id="other pattern"
        ),
        pytest.param(
            {"profile": "small", "tag--unlisted-choice": ["a/y"]}, "tag: this text cannot be used.", id="no text"
        ),
    ],
)
def test_a_choice_that_is_not_offered_is_refused_in_words(options: Any, message: str):
    with pytest.raises(RefusedProfile) as refused:
        check_profile(options, PROFILES, validate=accept)
    assert refused.value.jupyterhub_message.startswith(message)


def test_a_refusal_is_a_refused_start_and_what_kubespawner_raises():
    with pytest.raises(RefusedProfile) as refused:
        check_profile({"profile": "huge"}, PROFILES, validate=accept)
    assert [isinstance(refused.value, kind) for kind in (RefusedStart, ValueError)] == [True, True]
    assert (refused.value.code, refused.value.status_code) == ("unknown_choice", 400)


@pytest.mark.parametrize(
    ("validate", "message"),
    [(refuse, "Received unlisted_choice for image without being enabled."), (refuse_type, "expected string")],
    ids=["value", "type"],
)
@pytest.mark.parametrize("profiles", [PROFILES, []], ids=["profiles", "none"])
def test_what_kubespawner_refuses_is_refused_in_its_words(profiles: list[Any], validate: Any, message: str):
    with pytest.raises(RefusedProfile) as refused:
        check_profile({"profile": "small" if profiles else "x"}, profiles, validate=validate)
    assert refused.value.jupyterhub_message.startswith(message)


def test_another_error_of_kubespawners_check_is_a_mistake_and_stays_so():
    def fail(_: object) -> None:
        raise KeyError("slug")

    with pytest.raises(KeyError):
        check_profile({"profile": "small"}, PROFILES, validate=fail)


@pytest.mark.parametrize("profiles", [None, [], ()], ids=["none", "empty", "tuple"])
@pytest.mark.parametrize("options", [{}, {"profile": "small"}, None])
def test_without_profiles_there_is_no_name(profiles: Any, options: Any):
    assert check_profile(options, profiles, validate=accept) == {}


def test_of_two_profiles_with_one_slug_the_first_is_chosen_as_by_kubespawner():
    twin = {"display_name": "Twin", "slug": "small", "profile_options": {"size": {"choices": {"odd": {}}}}}
    chosen = check_profile({"profile": "small", "size": "big"}, [*PROFILES, twin], validate=accept)
    assert format_profile_name(chosen) == "Small server"


def test_a_long_or_hostile_value_is_shortened_and_stays_one_line():
    with pytest.raises(RefusedProfile) as refused:
        check_profile({"profile": "x" * 10_000 + "\n"}, PROFILES, validate=accept)
    message = refused.value.jupyterhub_message
    assert (len(message) < 500, "\n" in message) == (True, False)


def test_a_refusal_is_in_the_language_of_the_user():
    with use_language(load_languages()["de"]), pytest.raises(RefusedProfile) as refused:
        check_profile({"profile": "huge"}, PROFILES, validate=accept)
    assert "There is no" not in refused.value.jupyterhub_message


@pytest.mark.parametrize(
    ("profile_list", "slug", "name"),
    [
        pytest.param(PROFILES, "large", "Large server", id="list"),
        pytest.param({"1": PROFILES[1]}, "large", "Large server", id="mapping"),
        pytest.param([{"display_name": "Two Words"}], "two-words", "Two Words", id="slug of the name"),
        pytest.param(PROFILES, "gone", "gone", id="unknown"),
        pytest.param(PROFILES, "", "", id="nothing"),
        pytest.param(lambda _: PROFILES, "large", "large", id="function"),
        pytest.param(None, "large", "large", id="none"),
        pytest.param([None, 1, {"slug": "large"}], "large", "", id="no name"),
    ],
)
def test_a_stored_slug_has_the_name_of_its_profile(profile_list: object, slug: str, name: str):
    assert find_profile_name(profile_list, slug) == name


def test_the_default_is_kubespawners_also_where_profiles_share_a_slug():
    options = {"tag": TAG}
    profiles = [
        {"display_name": "First", "slug": "same"},
        {"display_name": "Second", "slug": "same", "default": True, "profile_options": options},
    ]
    assert format_profile_name(check_profile({}, profiles, validate=accept)) == "Second"
    with pytest.raises(RefusedProfile):
        check_profile({"tag--unlisted-choice": "x/y"}, profiles, validate=accept)


def test_a_name_with_markup_is_text():
    profiles = [{"display_name": "<b>R &amp; D</b>", "slug": "rd", "default": True}]
    chosen = check_profile({}, profiles, validate=accept)
    assert (format_profile_name(chosen), find_profile_name(profiles, "rd")) == ("R & D", "R & D")
