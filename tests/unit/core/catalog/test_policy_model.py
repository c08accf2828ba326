"""A single rule, and a pool."""

from __future__ import annotations

import pytest

from gpuspawner.core.catalog.policy_model import Person, Policy, Rule, normalize_group
from tests.unit.core.policies import pool


@pytest.mark.parametrize(
    ("images", "has"),
    [(None, True), (("*",), True), (("torch",), True), (("r",), False)],
)
def test_an_image_may_be_used_where_it_is_named_or_none_is(images: tuple[str, ...] | None, has: bool):
    assert Rule(images=images).allows_image("torch") is has


@pytest.mark.parametrize(
    ("policy", "asks"),
    [
        (Policy(default=Rule(max_gpus=1), users={"ada": Rule()}), False),
        (Policy(groups={"ml": Rule()}), True),
        (Policy(pools={"physics": pool()}), True),
    ],
)
def test_groups_are_asked_for_only_where_something_depends_on_them(policy: Policy, asks: bool):
    assert policy.depends_on_groups is asks


def test_groups_are_compared_without_case_and_however_accents_are_kept():
    person = Person(name="ada", groups=frozenset({"CAFE\u0301", "Stra\u00dfe"}))
    assert person.normalized_groups == {normalize_group("caf\u00e9"), "strasse"}
    assert normalize_group("caf\u00e9") == "caf\u00e9"
