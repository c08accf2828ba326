"""Settings over settings, as Helm does it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.errors import SettingsError
from gpuspawner.settings.parsing import convert_to_plain, diff_values, merge_values

KEYS = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(st.booleans(), st.integers(0, 2), st.lists(st.integers(0, 1), max_size=2), st.none())
VALUES = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda below: st.dictionaries(KEYS, below, max_size=3), max_leaves=8)
)


def spoken(values: Any) -> Any:
    """Return values without what is null, as a text that tells True from 1."""
    if not isinstance(values, dict):
        return repr(values)
    return {key: spoken(value) for key, value in values.items() if value is not None}


@given(VALUES, VALUES)
def test_changes_over_what_was_before_make_what_is_after(before: Any, after: Any):
    assert spoken(merge_values(before, diff_values(before, after))) == spoken(after)


def test_what_did_not_change_is_not_among_the_changes():
    before = {"a": {"x": 1, "y": 1}, "b": [1], "c": 1, "d": {"e": {}}}
    after = {"a": {"x": 1, "y": True}, "b": [1], "d": {"e": {}}}
    assert diff_values(before, after) == {"a": {"y": True}, "c": None}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"environment": {"FOO": "1", "BAR": "2"}}, {"environment": {"BAR": "2"}}),
        ({"default_url": "/lab", "cmd": None}, {"cmd": None}),
        ({"environment": {"FOO": "1"}}, {}),
        ({}, {"environment": {"FOO": None}}),
    ],
    ids=["key of a trait", "trait", "all", "null of the admin"],
)
def test_keys_removed_from_an_override_leave_no_null(before: dict[str, Any], after: dict[str, Any]):
    old = {"images": {"a": {"image": "a:1", "kubespawner_override": before}}}
    new = {"images": {"a": {"image": "a:1", "kubespawner_override": after}}}
    assert merge_values(old, diff_values(old, new)) == new


def test_an_override_that_did_not_change_is_not_among_the_changes():
    same = {"kubespawner_override": {"environment": {"FOO": "1"}}}
    assert diff_values(same, {"kubespawner_override": {"environment": {"FOO": "1"}}}) == {}


def test_a_mapping_that_holds_itself_is_refused():
    endless: dict[str, Any] = {}
    endless["a"] = endless
    with pytest.raises(SettingsError, match="nested more than"):
        convert_to_plain(endless)


def test_whatever_is_a_mapping_or_a_sequence_becomes_a_dict_or_a_list():
    assert convert_to_plain({"a": ({"b": 1}, "text")}) == {"a": [{"b": 1}, "text"]}
