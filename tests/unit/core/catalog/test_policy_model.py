"""A single rule, and a pool."""

from __future__ import annotations

import pytest

from gpuspawner.core.catalog.policy_model import Person, Rule, normalize_group


@pytest.mark.parametrize(
    ("images", "has"),
    [(None, True), (("*",), True), (("torch",), True), (("r",), False)],
)
def test_an_image_may_be_used_where_it_is_named_or_none_is(images: tuple[str, ...] | None, has: bool):
    assert Rule(images=images).allows_image("torch") is has


def test_groups_are_compared_without_case_and_however_accents_are_kept():
    person = Person(name="ada", groups=frozenset({"CAFE\u0301", "Stra\u00dfe"}))
    assert person.normalized_groups == {normalize_group("caf\u00e9"), "strasse"}
    assert normalize_group("caf\u00e9") == "caf\u00e9"
