"""A list answer is taken apart as ``json.loads`` would, but one object at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.kube.page_items import members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES), st.lists(VALUES), st.sampled_from([None, 1, "\t"]))
def test_everything_in_it_is_found(others: dict[str, Any], items: list[Any], indent: int | str | None):
    others.pop("items", None)
    text = json.dumps({"before": 1, "items": items, **others}, indent=indent)
    found = list(members(text))
    assert [value for name, value in found if name == "items"] == (items or [[]])
    assert {name: value for name, value in found if name != "items"} == {"before": 1, **others}


@pytest.mark.parametrize("text", ['{"items": null}', '{"items": {"a": 1}}', ' { "items" : 3 } '])
def test_items_that_are_no_array_are_a_member_like_others(text: str):
    assert list(members(text)) == [("items", json.loads(text)["items"])]


def test_an_empty_object_has_nothing():
    assert list(members("{}")) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "<html>",
        "{",
        '{"items"',
        '{"items": [',
        '{"items": [1',
        '{"items": [1,]}',
        '{"items": [1 2]}',
        '{"items": []',
        '{"items": [],}',
        "{1: 2}",
        '{"a": 1} {}',
        '{"a": 1 "b": 2}',
    ],
)
def test_what_is_no_json_object_is_an_error(text: str):
    with pytest.raises(ValueError, match="line 1 column"):
        list(members(text))


def test_deep_nesting_is_an_error_like_others():
    with pytest.raises(ValueError, match="nested too deeply"):
        list(members('{"items": [' + "[" * 200_000))


def test_what_stands_before_the_mistake_is_found():
    walk = members('{"items": [1, 2, ?]}')
    assert [next(walk), next(walk)] == [("items", 1), ("items", 2)]
