from __future__ import annotations

import pytest

from gpuspawner.core.json_access import as_dict, as_dicts, as_int, as_message, as_text, as_text_map, as_texts

OTHERS = [None, True, 1, 1.5, "text", ["list"], {"object": 1}]


@pytest.mark.parametrize("raw", OTHERS)
def test_a_value_that_is_no_object_reads_as_an_empty_one(raw: object):
    assert as_dict(raw) == (raw if isinstance(raw, dict) else {})


@pytest.mark.parametrize("raw", OTHERS)
def test_a_value_that_is_no_text_reads_as_an_empty_one(raw: object):
    assert as_text(raw) == (raw if isinstance(raw, str) else "")


def test_a_message_is_cut_to_4096_characters():
    assert [as_message(raw) for raw in ("short", "x" * 64_000, None)] == ["short", "x" * 4096, ""]


@pytest.mark.parametrize("raw", OTHERS)
def test_a_value_that_is_no_whole_number_reads_as_none(raw: object):
    assert as_int(raw) == (1 if raw == 1 and raw is not True else None)


def test_entries_of_a_list_that_are_no_objects_read_as_empty_ones():
    assert as_dicts([{"a": 1}, "b", None]) == [{"a": 1}, {}, {}]
    assert as_dicts({"a": 1}) == []


def test_only_texts_of_a_list_or_an_object_are_read():
    assert as_texts(["a", 1, None, "b"]) == ("a", "b")
    assert as_texts("ab") == ()
    assert as_text_map({"a": "b", "c": 1}) == {"a": "b"}
