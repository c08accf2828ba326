"""What the form's script asks for in a header."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.form.formview_restore import FIELDS
from gpuspawner.core.request.checks import longest_text
from gpuspawner.hub.request.choice_header import HEADER, chosen


def handler(text: str | None) -> Any:
    return SimpleNamespace(request=SimpleNamespace(headers={} if text is None else {HEADER: text}))


def test_the_values_of_the_fields_are_read():
    assert chosen(handler(json.dumps({"cpu": "2", "gpu": "a100"}))) == {"cpu": "2", "gpu": "a100"}


def test_the_longest_text_of_every_field_has_room():
    values = {name: "a" * longest_text(name) for name in FIELDS}
    assert chosen(handler(json.dumps(values))) == values


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", "[" * 1500, json.dumps({"cpu": "2" * 5000})])
def test_anything_else_asks_for_nothing(text: str | None):
    assert chosen(handler(text)) is None


def test_what_is_no_text_is_left_out():
    assert chosen(handler('{"cpu": 2, "gpu": "a100", "memory": ["1"]}')) == {"gpu": "a100"}


def test_outside_of_a_request_nothing_is_asked():
    assert chosen(None) is None
