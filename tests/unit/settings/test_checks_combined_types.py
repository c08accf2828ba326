from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.settings.checks import check_combined_type
from gpuspawner.settings.models import SETTINGS

TYPES = {
    "a100": {"resource": "nvidia.com/gpu"},
    "h100": {"resource": "nvidia.com/gpu", "runtime_class": "nvidia"},
    "mi210": {"resource": "amd.com/gpu"},
    "off": {"enabled": False},
    "other": {"any_of": ["a100"]},
}


def found(discover: bool = True, **keys: Any) -> dict[str, str]:
    raw = {"gpus": {**TYPES, "any": keys}, "discover_gpus": discover}
    problems = check_combined_type("any", SETTINGS.validate_python(raw))
    return {problem.field.removeprefix("gpus.any."): problem.message for problem in problems}


@pytest.mark.parametrize(
    "keys",
    [
        {"any_of": ["a100"]},
        {"any_of": ["a100", "h100"], "runtime_class": "nvidia"},
        {"any_of": ["a100", "brought-by-a-node"], "max_count": 2, "display_name": "Any"},
        {"min_memory": "40G", "resource": "nvidia.com/gpu", "unit": "mig"},
    ],
)
def test_a_good_choice_is_no_problem(keys: dict[str, Any]):
    assert found(**keys) == {}


@pytest.mark.parametrize(
    ("keys", "field", "message"),
    [
        ({"any_of": ["a100"], "min_memory": "40G"}, "min_memory", "must be left out with any_of"),
        (
            {"any_of": ["a100"], "resource": "nvidia.com/gpu"},
            "resource",
            "must be left out: the types it stands for say it",
        ),
        (
            {"min_memory": "40G", "resource": "nvidia.com/gpu", "match": {"a": "b"}},
            "match",
            "must be left out: the types it stands for say it",
        ),
        ({"any_of": ["a100", "off"]}, "any_of.1", "'off' is taken out by enabled: false"),
        ({"any_of": ["other"]}, "any_of.0", "must be one GPU type: 'other' stands for several itself"),
        (
            {"any_of": ["a100", "mi210"]},
            "any_of",
            "must all have the same resource: a100 has nvidia.com/gpu, mi210 has amd.com/gpu",
        ),
        (
            {"any_of": ["a100", "h100"]},
            "runtime_class",
            "is required, because its types have different ones: a100 has none, h100 has nvidia",
        ),
    ],
)
def test_what_cannot_be_one_choice_is_a_problem(keys: dict[str, Any], field: str, message: str):
    assert found(**keys) == {field: message}


def test_without_discovery_every_type_must_be_described():
    assert found(discover=False, any_of=["a10"]) == {
        "any_of.0": "there is no GPU type 'a10'. Did you mean 'a100'?",
    }
