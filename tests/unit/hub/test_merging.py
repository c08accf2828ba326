"""Entries are added once, in the admin's shape; how terms are put together is tested with the traits in test_apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalogue import Toleration
from gpuspawner.hub.merging import added, literal, toleration_entries

HOME, SHM = {"name": "home"}, {"name": "shm"}


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        (None, [SHM]),
        ([HOME], [HOME, SHM]),
        ([SHM], [SHM]),
        ({"a": HOME}, {"a": HOME, "gpuspawner-1": SHM}),
        ({"a": SHM}, {"a": SHM}),
    ],
)
def test_an_entry_is_added_once_in_the_admins_shape(admins: Any, expected: Any):
    assert added(admins, [SHM]) == expected


def test_what_is_empty_in_a_toleration_is_left_out():
    assert toleration_entries([Toleration(key="gpu", operator="Exists")]) == [{"key": "gpu", "operator": "Exists"}]


@given(st.text())
def test_a_literal_text_survives_formatting(text: str):
    assert literal(text).format(username="ada") == text
