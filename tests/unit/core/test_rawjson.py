from __future__ import annotations

import pytest

from gpuspawner.core.rawjson import mapping, mappings, text, text_map, texts, whole

OTHERS = [None, True, 1, 1.5, "text", ["list"], {"object": 1}]


@pytest.mark.parametrize("raw", OTHERS)
def test_what_is_no_object_reads_as_an_empty_one(raw: object):
    assert mapping(raw) == (raw if isinstance(raw, dict) else {})


@pytest.mark.parametrize("raw", OTHERS)
def test_what_is_no_text_reads_as_an_empty_one(raw: object):
    assert text(raw) == (raw if isinstance(raw, str) else "")


@pytest.mark.parametrize("raw", OTHERS)
def test_what_is_no_whole_number_reads_as_none(raw: object):
    assert whole(raw) == (1 if raw == 1 and raw is not True else None)


def test_entries_of_a_list_that_are_no_objects_read_as_empty_ones():
    assert mappings([{"a": 1}, "b", None]) == [{"a": 1}, {}, {}]
    assert mappings({"a": 1}) == []


def test_only_texts_of_a_list_or_an_object_are_read():
    assert texts(["a", 1, None, "b"]) == ("a", "b")
    assert texts("ab") == ()
    assert text_map({"a": "b", "c": 1}) == {"a": "b"}
