"""The viewer is known in the request that named them, and in no other."""

from __future__ import annotations

import gc
import weakref
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest

from gpuspawner.hub.request import context as request_context


def handler(**user: Any) -> Any:
    return SimpleNamespace(current_user=SimpleNamespace(**user))


@pytest.mark.parametrize(
    ("looking", "expected"),
    [
        (handler(admin=True), True),
        (handler(admin=False), False),
        (handler(admin="no"), False),
        (handler(), False),
        (SimpleNamespace(current_user=None), False),
        (SimpleNamespace(), False),
        (None, False),
    ],
)
def test_only_an_admin_of_the_hub_is_one(looking: Any, expected: bool):
    def found() -> bool:
        request_context.note_viewer(looking)
        return request_context.is_viewer_admin()

    assert copy_context().run(found) == expected


def test_another_request_has_another_onlooker():
    copy_context().run(request_context.note_viewer, handler(admin=True))
    assert not request_context.is_viewer_admin()


def test_a_handler_is_not_kept_by_what_begins_in_its_request():
    class Handler:
        current_user = SimpleNamespace(admin=True)

    looking = Handler()
    gone = weakref.ref(looking)
    context = copy_context()
    context.run(request_context.note_viewer, looking)
    del looking
    gc.collect()
    assert (gone(), context.run(request_context.is_viewer_admin)) == (None, True)
