"""The request of the form's script, in a header."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.core.request.checks import find_max_length
from gpuspawner.core.request.field_definitions import FORM_FIELDS
from gpuspawner.hub.request import context
from gpuspawner.hub.request.context import CHOICE_HEADER


def read_choice_header(handler: Any) -> dict[str, str] | None:
    context.note_choice_header(handler)
    return context.read_choice_header()


def handler(text: str | None) -> Any:
    return SimpleNamespace(request=SimpleNamespace(headers={} if text is None else {CHOICE_HEADER: text}))


def test_the_values_of_the_fields_are_read():
    assert read_choice_header(handler(json.dumps({"cpu": "2", "gpu": "a100"}))) == {"cpu": "2", "gpu": "a100"}


def test_the_longest_text_of_every_field_has_room():
    values = {name: "a" * find_max_length(name) for name in FORM_FIELDS}
    assert read_choice_header(handler(json.dumps(values))) == values


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", "[" * 1500, json.dumps({"cpu": "2" * 9000})])
def test_anything_else_asks_for_nothing(text: str | None):
    assert read_choice_header(handler(text)) is None


def test_values_that_are_no_text_are_left_out():
    assert read_choice_header(handler('{"cpu": 2, "gpu": "a100", "memory": ["1"]}')) == {"gpu": "a100"}


def test_outside_of_a_request_nothing_is_asked():
    assert read_choice_header(None) is None
