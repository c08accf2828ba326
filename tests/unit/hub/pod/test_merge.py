"""Entries are added once, in the admin's shape; how terms are put together is tested with the traits in test_apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.node_labels import MatchExpression
from gpuspawner.core.cluster.model import Toleration
from gpuspawner.hub.pod.merge import append_entries, escape_braces, format_tolerations, merge_required_terms

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
    assert append_entries(admins, [SHM]) == expected


def test_empty_fields_of_a_toleration_are_left_out():
    assert format_tolerations([Toleration(key="gpu", operator="Exists")]) == [{"key": "gpu", "operator": "Exists"}]


@given(st.text())
def test_a_literal_text_survives_formatting(text: str):
    assert escape_braces(text).format(username="ada") == text


A = (MatchExpression(key="a", operator="In", values=("1",)),)
B = (MatchExpression(key="b", operator="DoesNotExist"),)
WANTED_A, WANTED_B = {"key": "a", "operator": "In", "values": ["1"]}, {"key": "b", "operator": "DoesNotExist"}
OWN = {"key": "own", "operator": "Exists"}


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        (None, [{"matchExpressions": [WANTED_A]}, {"matchExpressions": [WANTED_B]}]),
        (
            [{"matchExpressions": [OWN]}],
            [{"matchExpressions": [OWN, WANTED_A]}, {"matchExpressions": [OWN, WANTED_B]}],
        ),
        (
            {"x": {"matchExpressions": [OWN]}},
            {"x": {"matchExpressions": [OWN, WANTED_A]}, "x-gpuspawner-1": {"matchExpressions": [OWN, WANTED_B]}},
        ),
    ],
)
def test_every_term_is_repeated_with_each_alternative(admins: Any, expected: Any):
    assert merge_required_terms(admins, (), alternatives=(A, B)) == expected


def test_every_alternative_has_what_is_required_in_any_case():
    assert merge_required_terms([], A, alternatives=(A, B)) == [
        {"matchExpressions": [WANTED_A, WANTED_A]},
        {"matchExpressions": [WANTED_A, WANTED_B]},
    ]
