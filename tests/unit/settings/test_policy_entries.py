"""How rules and pools are written."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from gpuspawner.core.catalog.policy_model import UNLIMITED, Rule
from gpuspawner.core.errors import SettingsError
from gpuspawner.settings import Settings

ANY_OTHER = "must be *, a list of GPU types, or a mapping of GPU types and their limits"
A_NUMBER = "must be a whole number from 0 on, or unlimited"


@pytest.mark.parametrize(
    ("rule", "key", "expected"),
    [
        ({"gpus": "*"}, "gpus", ["*"]),
        ({"gpus": ["t4", "*"]}, "gpus", ["t4", "*"]),
        ({"gpus": {"t4": {}, "*": {"max_gpus": 1}}}, "gpus", ["t4", "*"]),
        ({"gpus": []}, "gpus", []),
        ({"images": "*"}, "images", ("*",)),
        ({"images": ["torch"]}, "images", ("torch",)),
        ({"max_gpus": "unlimited"}, "max_gpus", UNLIMITED),
        ({"max_gpus": 0}, "max_gpus", 0),
        ({"max_runtime": "2h30m"}, "max_runtime_s", 9000),
        ({"max_runtime": "unlimited"}, "max_runtime_s", UNLIMITED),
        ({}, "gpus", None),
    ],
)
def test_a_rule_is_written_as_is_handy(rule: dict[str, Any], key: str, expected: object):
    found = getattr(TypeAdapter(Rule).validate_python(rule), key)
    assert (list(found) if isinstance(found, dict) else found) == expected


def test_amounts_may_be_unlimited_at_the_top():
    rule = TypeAdapter(Rule).validate_python(
        {"cpu": {"min": 1, "max": "unlimited"}, "memory": {"min": "1G", "max": "unlimited"}}
    )
    assert rule.cpu is not None
    assert rule.memory is not None
    assert (rule.cpu.min, rule.cpu.max, rule.memory.min, rule.memory.max) == (1000, UNLIMITED, 1 << 30, UNLIMITED)


@pytest.mark.parametrize(
    ("rule", "path", "message"),
    [
        ({"max_gpus": -1}, "max_gpus", f"{A_NUMBER}, not -1"),
        ({"max_gpus": True}, "max_gpus", f"{A_NUMBER}, not true"),
        ({"max_gpus": "4"}, "max_gpus", f"{A_NUMBER}, not '4'"),
        ({"gpus": "t4"}, "gpus", f"{ANY_OTHER}, not 't4'"),
        ({"gpus": [4]}, "gpus", f"{ANY_OTHER}, not a list"),
        ({"max_gpu": 1}, "max_gpu", "there is no such key. Did you mean 'max_gpus'?"),
        ({"images": "torch"}, "images", "must be a list, not 'torch'"),
        (
            {"max_runtime": 8},
            "max_runtime",
            "must be a duration with a unit, such as 30m, 8h or 2d, not 8",
        ),
    ],
)
def test_mistakes_in_entries_are_named_by_their_path(rule: dict[str, Any], path: str, message: str):
    with pytest.raises(SettingsError) as caught:
        Settings.parse({"policy": {"groups": {"ml": rule}}})
    assert [(each.field, each.message) for each in caught.value.problems] == [(f"policy.groups.ml.{path}", message)]


def test_a_group_that_yaml_takes_for_a_number_is_to_be_quoted():
    with pytest.raises(SettingsError, match='must be in quotes, as in "2026"'):
        Settings.parse({"policy": {"groups": {2026: {}}}})
