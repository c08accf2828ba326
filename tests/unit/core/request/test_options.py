from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.options import (
    MAX_FIELDS,
    UNLISTED,
    check_size,
    name_option_field,
    parse_form,
    parse_query,
    read_typed_amounts,
    split_form,
    split_options,
    split_profile_fields,
    split_query,
)

ANYTHING = st.dictionaries(
    st.sampled_from(["image", "custom_image", "cpu", "memory", "gpu", "gpu_count"])
    | st.sampled_from(["start_preset", "opt-gpu", "preset", "v", "_xsrf"])
    | st.sampled_from(["profile", "profile-option-a--b", "profile-option-a--b--unlisted-choice"])
    | st.text(max_size=10),
    st.lists(st.text(max_size=250), max_size=3)
    | st.text()
    | st.none()
    | st.integers()
    | st.lists(st.binary(), max_size=2),
)


def codes(read: Any, sent: Any) -> dict[str, str]:
    with pytest.raises(SelectionError) as caught:
        read(sent)
    return {problem.field: problem.code for problem in caught.value.problems}


def nest(levels: int, value: object = 1) -> object:
    """Return objects in lists in objects."""
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(nest(33), id="one level too many"),
        pytest.param(nest(100_000), id="deeper than Python recurses"),
        pytest.param({"a": "x" * 60_000}, id="a long text"),
        pytest.param({"x" * 60_000: 1}, id="a long name"),
        pytest.param({"a": "ü" * 10_000}, id="a text with escapes"),
        pytest.param({"a": [[]] * 60_000}, id="many values"),
        pytest.param({str(number): 1 for number in range(10_000)}, id="many names"),
        pytest.param({"a": 10**5000}, id="a number that is no text"),
    ],
)
def test_too_large_options_are_refused(options: object):
    assert codes(check_size, options) == {"": "too_large"}


@pytest.mark.parametrize(
    "options",
    [
        None,
        {},
        [],
        "text",
        {"a": "x" * 59_000},
        {"x" * 59_000: 1},
        {"a": [1] * 19_000},
        nest(31),
        {"a": [{"body": b"x"}]},
    ],
)
def test_options_of_a_usual_size_are_not_refused(options: object):
    check_size(options)


@pytest.mark.parametrize("read", [parse_form, parse_query, split_profile_fields])
@pytest.mark.parametrize("name", ["image{}", "profile-option-small--size{}", "opt-cpu{}"])
def test_a_form_or_link_with_more_fields_than_any_form_is_refused_by_their_number(read: Any, name: str):
    sent = {name.format(number): ["x"] for number in range(100_000)}
    began = time.thread_time()
    found = codes(read, sent)
    assert (found, time.thread_time() - began < 0.05) == ({"": "too_large"}, True)


@pytest.mark.parametrize("name", ["image{}", "profile-option-small--size{}", "opt-cpu{}"])
@pytest.mark.parametrize(
    "split",
    [
        pytest.param(lambda sent: parse_form(split_form(read_typed_amounts(sent), ["image1"])[0]), id="form"),
        pytest.param(lambda sent: parse_query(split_query(sent)[0]), id="link"),
    ],
)
def test_a_form_or_link_with_more_fields_than_any_form_is_refused_before_it_is_split(split: Any, name: str):
    sent = {name.format(number): ["x"] for number in range(100_000)}
    began = time.thread_time()
    found = codes(split, sent)
    assert (found, time.thread_time() - began < 0.005) == ({"": "too_large"}, True)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        pytest.param(
            {
                "image": ["pytorch"],
                "cpu": ["0.5"],
                "memory": ["8"],
                "gpu": ["t4"],
                "gpu_count": ["2"],
                "_xsrf": ["secret"],
            },
            {"image": "pytorch", "cpu": "0.5", "memory": "8G", "gpu": "t4", "gpu_count": 2},
            id="every field",
        ),
        pytest.param({"gpu": [""], "gpu_count": [""]}, {"gpu": None}, id="no GPU"),
        pytest.param({"gpu": [""], "gpu_count": ["2"]}, {"gpu": None}, id="the count of another choice"),
        pytest.param(
            {"image": ["plain"], "custom_image": ["quay.io/x"]},
            {"image": "plain"},
            id="the reference of another choice",
        ),
        pytest.param(
            {"image": [""], "custom_image": [" quay.io/x "]}, {"image": "", "custom_image": "quay.io/x"}, id="reference"
        ),
        pytest.param({"image": [""]}, {"image": ""}, id="no field for a reference"),
        pytest.param(
            {"start_preset": ["train"], "cpu": ["999"], "gpu": ["t4"], "image": [""], "custom_image": [""]},
            {"preset": "train"},
            id="the button of a preset",
        ),
    ],
)
def test_a_form_becomes_user_options(form: dict[str, list[str]], options: dict[str, object]):
    assert parse_form(form) == options


@pytest.mark.parametrize(
    ("field", "typed", "amount"),
    [
        *(("memory", "8", "8G"), ("memory", "1.5", "1.5G"), ("memory", "512M", "512M"), ("memory", "lots", "lots")),
        *(("memory", " 16 GiB ", "16 GiB"), ("shared_memory", "2", "2G"), ("shared_memory", " ", "")),
        *(("run_time", "8", "8h"), ("run_time", "1.5", "1.5h"), ("run_time", "30m", "30m"), ("run_time", "", "")),
    ],
)
def test_a_bare_number_has_the_unit_of_its_field(field: str, typed: str, amount: str):
    assert parse_form({field: [typed]}) == parse_query({f"opt-{field}": [typed]}) == {field: amount}


def test_another_image_without_a_reference_is_refused():
    with pytest.raises(SelectionError) as caught:
        parse_form({"image": [""], "custom_image": [" "]})
    (problem,) = caught.value.problems
    assert (problem.field, problem.code, problem.message) == (
        "custom_image",
        "not_a_reference",
        "Enter an image, such as quay.io/jupyter/scipy-notebook:2026-10-01.",
    )


@pytest.mark.parametrize("typed", ["two", "-1", "1.5", "٢", "9999999999"])
def test_a_count_that_is_no_small_number_stays_as_typed_for_the_validation(typed: str):
    assert parse_form({"gpu_count": [typed]}) == {"gpu_count": typed}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"gpus": ["t4"]}, {"gpus": "unknown_field"}),
        ({"preset": ["train"]}, {"preset": "unknown_field"}),
        ({"cpu": ["1", "2"]}, {"cpu": "conflict"}),
        ({"image_file": [{"body": b"", "filename": "x"}]}, {"image_file": "unknown_field"}),
        ({"image": [b"plain"]}, {"image": "wrong_type"}),
        ({"image": [None], "cpu": ["x" * 201]}, {"image": "wrong_type", "cpu": "too_long"}),
        ({"image": [""], "custom_image": ["x" * 521]}, {"custom_image": "too_long"}),
    ],
)
def test_a_form_that_was_not_ours_is_refused_field_by_field(form: Any, expected: dict[str, str]):
    assert codes(parse_form, form) == expected


@pytest.mark.parametrize(
    ("query", "options"),
    [
        pytest.param(
            {
                "v": ["1"],
                "opt-preset": ["train"],
                "cpu": ["4"],
                "opt-memory": ["16"],
                "gpu": ["t4"],
                "gpu_count": ["1"],
            },
            {"v": 1, "preset": "train", "cpu": "4", "memory": "16G", "gpu": "t4", "gpu_count": 1},
            id="names bare and with the hub's prefix",
        ),
        pytest.param(
            {"image": ["plain"], "opt-custom_image": ["quay.io/x"]},
            {"image": "plain", "custom_image": "quay.io/x"},
            id="two images, for the validation",
        ),
        pytest.param(
            {"gpu": [""], "gpu_count": ["2"]}, {"gpu": None, "gpu_count": 2}, id="a contradiction, for the validation"
        ),
    ],
)
def test_a_link_becomes_user_options(query: dict[str, list[str]], options: dict[str, object]):
    assert parse_query(query) == options


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"gpu": ["t4"], "opt-gpu": ["t4"]}, {"gpu": "conflict"}),
        ({"opt-gpucount": ["1"]}, {"gpucount": "unknown_field"}),
    ],
)
def test_a_link_that_names_a_field_twice_or_wrongly_is_refused(query: dict[str, list[str]], expected: dict[str, str]):
    assert codes(parse_query, query) == expected


@given(ANYTHING)
def test_whatever_is_sent_becomes_options_or_a_selection_error(sent: dict[str, object]):
    for read in (parse_form, parse_query):
        try:
            options = read(sent)
        except SelectionError:
            continue
        assert all(isinstance(value, str | int) or value is None for value in options.values())


IMAGE = "quay.io/a/b:1"


@pytest.mark.parametrize(
    ("options", "extra", "own", "found"),
    [
        pytest.param({"gpu": "a", "token": "t"}, (), {"gpu": "a", "token": "t"}, {}, id="none by default"),
        pytest.param({"gpu": "a", "token": "t"}, ("token", "no"), {"gpu": "a"}, {"token": "t"}, id="one"),
        pytest.param(None, ("token",), None, {}, id="no options"),
        pytest.param([1], ("token",), [1], {}, id="no mapping"),
        pytest.param({"image": IMAGE}, ("token",), {"image": IMAGE}, {}, id="image is gpuspawner's"),
        pytest.param({"image": IMAGE}, ("image",), {"custom_image": IMAGE}, {"image": IMAGE}, id="reference"),
        pytest.param({"image": "a/b"}, ("image",), {"custom_image": "docker.io/a/b"}, {"image": "a/b"}, id="short"),
        pytest.param(
            {"image": "a/b", "custom_image": "docker.io/a/b"},
            ("image",),
            {"custom_image": "docker.io/a/b"},
            {"image": "a/b"},
            id="stored",
        ),
        pytest.param(
            {"image": IMAGE, "custom_image": "c/d"}, ("image",), {"image": IMAGE, "custom_image": "c/d"}, {}, id="two"
        ),
        pytest.param({"image": "pytorch"}, ("image",), {"image": "pytorch"}, {}, id="slug"),
        pytest.param({"image": 3}, ("image",), {"image": 3}, {}, id="no text"),
        pytest.param({"image": "No/Such"}, ("image",), {"image": "No/Such"}, {}, id="no reference"),
    ],
)
def test_a_sites_own_options_are_split_off(options: Any, extra: Any, own: Any, found: dict[str, Any]):
    assert split_options(options, extra) == (own, found)


def test_a_sites_own_fields_of_a_form_are_split_off_and_the_image_stays():
    form = {"image": ["pytorch"], "course": ["ml"], "days": ["mon", "tue"], "file_file": [{"body": b""}]}
    own = {"image": ["pytorch"], "file_file": [{"body": b""}]}
    assert split_form(form, ["image", "course", "days"]) == (own, {"course": "ml", "days": ["mon", "tue"]})


SIZE, IMAGE_LIST = (name_option_field("lab", option) for option in ("size", "image"))
IMAGE_TEXT = name_option_field("lab", f"image{UNLISTED}")


def test_the_fields_of_options_are_those_of_kubespawners_form():
    assert (SIZE, IMAGE_TEXT) == ("profile-option-lab--size", "profile-option-lab--image--unlisted-choice")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({SIZE: ["l"]}, {}, id="an option without a profile"),
        pytest.param({"profile": [""], SIZE: ["l"]}, {}, id="no profile"),
        pytest.param({"profile": ["lab"]}, {"profile": ["lab"]}, id="a profile"),
        pytest.param({"profile": [" lab "], SIZE: [" l "]}, {"profile": ["lab"], SIZE: ["l"]}, id="spaces"),
        pytest.param({"profile": "lab", SIZE: "l"}, {"profile": ["lab"], SIZE: ["l"]}, id="texts that are no lists"),
        pytest.param({"profile": ["lab", "lab"], SIZE: []}, {"profile": ["lab"]}, id="the same twice"),
        pytest.param(
            {"profile": ["lab"], name_option_field("labs", "size"): ["l"], "cpu": ["4"], "_xsrf": ["x"]},
            {"profile": ["lab"]},
            id="fields that are not the profile's",
        ),
        pytest.param(
            {"profile": ["lab"], IMAGE_LIST: ["torch"], IMAGE_TEXT: ["a/b:1"]},
            {"profile": ["lab"], IMAGE_LIST: ["torch"]},
            id="a text beside a choice that is picked",
        ),
        pytest.param(
            {"profile": ["lab"], IMAGE_LIST: [""], IMAGE_TEXT: ["a/b:1"]},
            {"profile": ["lab"], IMAGE_TEXT: ["a/b:1"]},
            id="a text beside a choice that is not",
        ),
        pytest.param(
            {"profile": ["lab"], IMAGE_TEXT: ["a/b:1"]}, {"profile": ["lab"], IMAGE_TEXT: ["a/b:1"]}, id="a text alone"
        ),
        pytest.param({"profile": ["lab"], IMAGE_LIST: [""], IMAGE_TEXT: [" "]}, {"profile": ["lab"]}, id="no text"),
    ],
)
def test_a_profile_is_sent_with_its_own_fields_alone(form: Any, expected: dict[str, list[str]]):
    assert split_profile_fields(form)[0] == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        pytest.param({"profile": ["a", "b"]}, {"profile": "conflict"}, id="two profiles"),
        pytest.param({"profile": ["x" * 201]}, {"profile": "too_long"}, id="long profile"),
        pytest.param({"profile": [b"lab"]}, {"profile": "wrong_type"}, id="profile of bytes"),
        pytest.param({"profile": ["lab"], SIZE: ["s", "l"]}, {SIZE: "conflict"}, id="two choices"),
        pytest.param({"profile": ["lab"], IMAGE_TEXT: ["x" * 521]}, {IMAGE_TEXT: "too_long"}, id="long text"),
        pytest.param(
            {"profile": ["lab"], SIZE: [None], IMAGE_LIST: [{"body": b""}]},
            {SIZE: "wrong_type", IMAGE_LIST: "wrong_type"},
            id="no texts",
        ),
        pytest.param(
            {"profile": ["lab"], **{f"x{number}": ["x"] for number in range(MAX_FIELDS)}},
            {"": "too_large"},
            id="too many",
        ),
    ],
)
def test_fields_of_a_profile_that_kubespawners_form_never_sends_are_refused(form: Any, expected: dict[str, str]):
    assert codes(split_profile_fields, form) == expected


def test_an_image_may_be_as_long_in_a_profile_as_in_its_own_field():
    form = {"profile": ["lab"], IMAGE_TEXT: ["x" * 520]}
    assert split_profile_fields(form) == (form, {})


def test_fields_of_profiles_are_no_matter_where_no_profile_is_started():
    form = {"image": ["plain"], "profile": [""], SIZE: ["s", "l"], IMAGE_TEXT: ["x" * 9999]}
    assert split_profile_fields(form) == ({}, {"image": ["plain"]})


@given(ANYTHING)
def test_whatever_is_sent_becomes_fields_of_a_profile_or_a_selection_error(sent: dict[str, object]):
    try:
        fields, _ = split_profile_fields(sent)
    except SelectionError:
        return
    assert fields == {} or "profile" in fields
    assert all(len(texts) == 1 and isinstance(texts[0], str) and texts[0] for texts in fields.values())
