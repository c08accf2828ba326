"""Choices in fixed presets, as forms and links name them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.options import name_entry_field, name_image_field, parse_form, parse_query
from gpuspawner.core.request.selection import validate
from tests.unit.core.request.test_presets import CATALOG, OWN, codes


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {}, id="no field"),
        pytest.param({name_entry_field("p", "size"): "large"}, {"preset_choices": {"size": "large"}}, id="an entry"),
        pytest.param(
            {name_entry_field("q", "size"): "large", name_image_field("q", "i"): ""}, {}, id="of another preset"
        ),
        pytest.param(
            {name_entry_field("p", "i"): "", name_image_field("p", "i"): " acme/own:1 "},
            {"custom_image": "acme/own:1"},
            id="an image",
        ),
        pytest.param({name_image_field("p", "i"): OWN}, {"custom_image": OWN}, id="an image without a list"),
        pytest.param(
            {name_entry_field("p", "i"): "r", name_image_field("p", "i"): OWN, name_image_field("p", "j"): OWN},
            {"preset_choices": {"i": "r"}, "custom_image": OWN},
            id="an entry although an image is written",
        ),
        pytest.param({name_entry_field("p", "a.b_c"): "x"}, {"preset_choices": {"a.b_c": "x"}}, id="a name with signs"),
        pytest.param({"cpu": "4", "gpu": "t4"}, {}, id="the fields beside the presets"),
    ],
)
def test_a_form_names_the_preset_and_its_choices(fields: dict[str, str], expected: dict[str, Any]):
    sent = {"start_preset": ["p"], **{name: [text] for name, text in fields.items()}}
    assert parse_form(sent) == {"preset": "p", **expected}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({name_entry_field("p", "i"): [""], name_image_field("p", "i"): [""]}, "not_a_reference"),
        ({name_image_field("p", "i"): [OWN], name_image_field("p", "j"): [OWN]}, "conflict"),
        ({name_entry_field("p", "i"): ["a", "b"]}, "conflict"),
        ({name_entry_field("p", "i"): [b"a"]}, "wrong_type"),
        ({name_entry_field("p", "i"): ["x" * 1000]}, "too_long"),
    ],
    ids=["no image", "two images", "two entries", "bytes", "long"],
)
def test_a_form_that_contradicts_itself_is_refused(fields: dict[str, Any], code: str):
    with pytest.raises(SelectionError) as caught:
        parse_form({"start_preset": ["p"], **fields})
    assert [problem.code for problem in caught.value.problems] == [code]


def test_choices_in_presets_that_are_not_started_are_ignored():
    sent = {"image": ["r"], name_entry_field("p", "size"): ["large"], name_image_field("p", "i"): [""]}
    assert parse_form(sent) == {"image": "r"}


@pytest.mark.parametrize("others", [{}, {"_xsrf": ["x"]}, {"start_preset": [""]}], ids=["none", "token", "empty"])
def test_choices_in_presets_of_which_none_is_started_are_refused(others: dict[str, Any]):
    with pytest.raises(SelectionError, match=r"Pick one of the presets\.") as caught:
        parse_form({name_entry_field("p", "size"): ["large"], **others})
    assert [(problem.field, problem.code) for problem in caught.value.problems] == [("preset", "missing")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("size:large", {"size": "large"}),
        ("size:large,image:r", {"size": "large", "image": "r"}),
        ("size:", {"size": ""}),
        ("size", "size"),
        ("size:large,", "size:large,"),
        ("size:large,size:small", "size:large,size:small"),
        ("", ""),
    ],
    ids=["one", "two", "empty entry", "no entry", "comma", "twice", "empty"],
)
def test_a_link_names_choices(text: str, expected: object):
    assert parse_query({"preset": ["p"], "opt-preset_choices": [text]}) == {"preset": "p", "preset_choices": expected}


@pytest.mark.parametrize("text", ["size", "size:large,size:small"])
def test_a_link_that_is_malformed_is_refused_as_a_choice(text: str):
    options = parse_query({"preset": ["sized"], "preset_choices": [text]})
    assert codes(options) == {"preset_choices": "wrong_type"}


def test_a_link_with_an_empty_list_of_choices_is_the_default():
    options = parse_query({"preset": ["sized"], "preset_choices": [""]})
    assert dict(validate(options, CATALOG).preset_choices) == {"size": "small"}
