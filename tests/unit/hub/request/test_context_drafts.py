"""The options that a request sent are found in that request only, once."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest

from gpuspawner.core.errors import Problem
from gpuspawner.hub.request import context

PROBLEM = Problem(field="cpu", code="off_step", message="no")


def test_a_kept_draft_can_be_taken_once():
    context.keep_draft({"cpu": ["1"]})
    first, second = context.take_draft(), context.take_draft()
    assert first is not None
    assert (dict(first.typed), second) == ({"cpu": "1"}, None)


async def test_problems_noted_in_a_task_reach_the_request():
    context.keep_draft({})

    async def note() -> None:
        context.note_problems((PROBLEM,))

    await asyncio.create_task(note())
    draft = context.take_draft()
    assert draft is not None
    assert draft.problems == (PROBLEM,)


def test_another_request_has_another_draft():
    copy_context().run(context.keep_draft, {"cpu": ["1"]})
    assert context.take_draft() is None


def test_without_a_form_problems_are_noted_nowhere():
    context.note_problems((PROBLEM,))
    assert context.take_draft() is None


@pytest.mark.parametrize(
    ("form", "typed"),
    [
        ({"opt-gpu": ["a100"]}, {"gpu": "a100"}),
        ({"cpu": ["1", "2"]}, {"cpu": "2"}),
        ({"cpu": []}, {}),
        ({"file_file": [{"body": b""}]}, {}),
        ({"cpu": ["9" * 1000]}, {"cpu": "9" * 200}),
        ({"opt-custom_image": ["a" * 1000]}, {"custom_image": "a" * 520}),
    ],
)
def test_only_short_texts_are_kept(form: dict[str, object], typed: dict[str, str]):
    assert context.keep_draft(form).typed == typed
    context.take_draft()
