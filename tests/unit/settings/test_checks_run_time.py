"""Limits of run times that no server could keep are reported by their path."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.errors import SettingsError
from gpuspawner.settings import Settings

T4 = {"resource": "nvidia.com/gpu", "match": {"gpu": "t4"}}
CHOSEN = {"min": "30m", "max": "24h", "step": "30m"}


def problems(**raw: Any) -> list[tuple[str, str]]:
    try:
        Settings.parse({"gpus": {"t4": T4}, **raw})
    except SettingsError as error:
        return [(problem.field, problem.message) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"gpus": {"t4": {**T4, "max_runtime": "{}"}}}, "gpus.t4.max_runtime"),
        ({"policy": {"default": {"max_runtime": "{}"}}}, "policy.default.max_runtime"),
        ({"policy": {"groups": {"ml": {"max_runtime": "{}"}}}}, "policy.groups.ml.max_runtime"),
        (
            {"policy": {"users": {"ada": {"gpus": {"t4": {"max_runtime": "{}"}}}}}},
            "policy.users.ada.gpus.t4.max_runtime",
        ),
    ],
)
def test_a_limit_below_all_choices_is_wrong_where_it_stands(raw: dict[str, Any], path: str):
    assert problems(**written(raw, "15m"), run_time=CHOSEN) == [
        (path, "must be at least run_time.min (30 minutes), not 15 minutes")
    ]
    assert problems(**written(raw, "0m"), run_time=CHOSEN) == [(path, "must be more than 0")]
    assert problems(**written(raw, "30m"), run_time=CHOSEN) == []
    assert problems(**written(raw, "15m")) == []


def test_no_limit_and_one_of_a_type_that_is_taken_out_are_none():
    assert problems(policy={"default": {"max_runtime": "unlimited"}}, run_time=CHOSEN) == []
    assert problems(gpus={"t4": {**T4, "max_runtime": "15m", "enabled": False}}, run_time=CHOSEN) == []


def written(raw: Any, length: str) -> Any:
    """Return settings with a duration in its place."""
    if isinstance(raw, dict):
        return {key: written(value, length) for key, value in raw.items()}
    return length if raw == "{}" else raw
