from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.text.wording import format_list, quote, sanitize_name, suggest_name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a100", "'a100'"),
        ("x" * 41, "'" + "x" * 39 + "…'"),
        ("two\nlines\x00", "'two\\nlines\\x00'"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        pytest.param(10**5000, "a number", id="longer than Python writes"),
        (float("nan"), "a number"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
    ],
)
def test_a_value_is_quoted_briefly_on_one_line(value: object, text: str):
    assert quote(value) == text


@given(st.text(max_size=500))
def test_a_quoted_text_is_printable_and_short(value: str):
    assert quote(value).isprintable()
    assert len(quote(value)) <= 40 * len("\\U00000000") + 2


def test_the_name_of_an_unknown_field_has_no_control_characters():
    assert (sanitize_name("a\nb"), sanitize_name(3)) == ("a\\nb", "3")


def test_the_nearest_word_is_suggested():
    assert suggest_name("gpu_cuont", ("gpu", "gpu_count")) == " Did you mean 'gpu_count'?"


@pytest.mark.parametrize("wrong", ["zzz", 3, None, ["gpu"]])
def test_nothing_is_suggested_for_what_resembles_nothing(wrong: object):
    assert suggest_name(wrong, ("gpu", "gpu_count")) == ""


def test_a_long_list_says_how_many_it_leaves_out():
    assert format_list(["a", "b", "c", "d"], max_items=2) == "a, b and 2 more"
