"""A list answer is taken apart as ``json.loads`` would, but one object at a time, wherever it is cut."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.kube.client import json_stream
from gpuspawner.kube.client.json_stream import parse_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


async def pieces(text: str, at: Iterable[int] = ()) -> AsyncIterator[str]:
    """Yield a text, cut at these places."""
    cuts = [0, *sorted(at), len(text)]
    for begin, end in itertools.pairwise(cuts):
        yield text[begin:end]


async def listed(text: str, at: Iterable[int] = ()) -> list[tuple[str, object]]:
    return [each async for each in parse_members(pieces(text, at))]


@given(st.dictionaries(st.text(), VALUES), st.lists(VALUES), st.sampled_from([None, 1, "\t"]), st.data())
def test_everything_in_it_is_found(
    others: dict[str, Any], items: list[Any], indent: int | str | None, data: st.DataObject
):
    others.pop("items", None)
    text = json.dumps({"before": 1, "items": items, **others}, indent=indent)
    found = asyncio.run(listed(text, data.draw(st.lists(st.integers(0, len(text))))))
    assert [value for name, value in found if name == "items"] == (items or [[]])
    assert {name: value for name, value in found if name != "items"} == {"before": 1, **others}


@pytest.mark.parametrize("text", ['{"items": null}', '{"items": {"a": 1}}', ' { "items" : 3 } '])
async def test_items_that_are_no_array_are_a_member_like_others(text: str):
    assert await listed(text) == [("items", json.loads(text)["items"])]


async def test_an_empty_object_has_nothing():
    assert await listed("{}") == []


async def test_a_text_may_be_cut_between_any_two_characters():
    text = '{"kind": "List", "items": [12, 1.5e+3, -2E-1, {"a": -1.5e3}, "\\ud83d\\ude00", []], "metadata": {"n": 10}}'
    whole = await listed(text)
    assert [await listed(text, [cut]) for cut in range(len(text) + 1)] == [whole] * (len(text) + 1)
    assert await listed(text, range(len(text))) == whole


async def test_an_object_is_handed_over_before_the_next_one_arrives():
    arrived = []

    async def arriving() -> AsyncIterator[str]:
        for piece in ('{"items": [{"a": 1}, ', '{"a": 2}, {"a"', ": 3}]}"):
            arrived.append(piece)
            yield piece

    assert [(value, len(arrived)) async for _, value in parse_members(arriving())] == [
        ({"a": 1}, 1),
        ({"a": 2}, 2),
        ({"a": 3}, 3),
    ]


async def test_a_long_value_in_many_pieces_is_not_tried_for_each_of_them(monkeypatch: pytest.MonkeyPatch):
    tried = []

    class Decoder(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
            tried.append(len(s))
            return super().raw_decode(s, idx)

    monkeypatch.setattr(json_stream, "_DECODER", Decoder())
    text = json.dumps({"items": ["x" * 100_000]})
    assert await listed(text, range(0, len(text), 10)) == [("items", "x" * 100_000)]
    assert sum(tried) < 4 * len(text)


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
async def test_text_that_is_no_json_object_is_an_error(text: str):
    for at in ((), range(len(text))):
        with pytest.raises(ValueError, match="line 1 column"):
            await listed(text, at)


async def test_deep_nesting_is_an_error_like_others():
    with pytest.raises(ValueError, match="nested too deeply"):
        await listed('{"items": [' + "[" * 200_000)


async def test_what_stands_before_the_mistake_is_found():
    walk = parse_members(pieces('{"items": [1, 2, ?]}'))
    assert [await anext(walk), await anext(walk)] == [("items", 1), ("items", 2)]


async def test_an_object_that_is_nested_too_deeply_takes_no_others_away():
    deep = '{"a":' * 5000 + '"}] \\" ["' + "}" * 5000
    text = f'{{"items": [{{"n": 1}}, {deep}, {{"n": 3}}]}}'
    expected = [("items", {"n": 1}), ("items", None), ("items", {"n": 3})]
    assert await listed(text) == expected
    assert await listed(text, range(0, len(text), 37)) == expected


async def test_managed_fields_nested_too_deeply_are_left_out_of_an_object():
    fields = '{"f:a":' * 5000 + "{}" + "}" * 5000
    managers = f'[{{"manager":"x","fieldsV1":{fields}}}]'
    text = f'{{"items":[{{"metadata":{{"name":"ok","managedFields":{managers}}},"spec":{{"a":1}}}}]}}'
    assert await listed(text) == [("items", {"metadata": {"name": "ok"}, "spec": {"a": 1}})]


async def test_a_value_that_does_not_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_stream, "MAX_LINE_BYTES", 1000)
    read = 0

    async def endless() -> AsyncIterator[str]:
        nonlocal read
        yield '{"items": ["'
        while True:
            read += 1
            yield "x" * 100

    with pytest.raises(ValueError, match="too long"):
        [each async for each in parse_members(endless())]
    assert read < 50
