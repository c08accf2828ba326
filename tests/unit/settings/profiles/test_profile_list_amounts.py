from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from gpuspawner.settings.profiles.variants import ProfileVariant

from gpuspawner.settings.profiles.profile_list import AMOUNT_TRAITS, ProfileAmounts, format_setting_amount

USUAL = {"cpu_limit": 8, "cpu_guarantee": "500m"}
ONLY_A_GUARANTEE = (
    "P: cpu has a guarantee and no limit; every server has a limit here, and this one's is the guarantee, 0.5."
)


def found(usual: dict[str, Any], **overrides: Any) -> tuple[int | None, Fraction | None, list[str]]:
    notes: list[str] = []
    amounts = ProfileAmounts(usual, notes)
    variant = ProfileVariant(name="P", overrides=overrides)
    return amounts.read_limit("cpu", variant), amounts.compute_guarantee("cpu", variant), list(dict.fromkeys(notes))


@pytest.mark.parametrize(
    ("overrides", "amount", "part"),
    [
        ({}, 8000, Fraction(1, 16)),
        ({"cpu_limit": 2}, 2000, Fraction(1, 4)),
        ({"cpu_guarantee": 2}, 8000, Fraction(1, 4)),
        ({"cpu_guarantee": None}, 8000, None),
        ({"cpu_guarantee": 9}, 8000, None),
        ({"cpu_limit": None, "cpu_guarantee": None}, None, None),
        ({"cpu_limit": 0, "cpu_guarantee": "0"}, None, None),
    ],
)
def test_what_a_profile_does_not_say_is_the_usual(overrides: dict[str, Any], amount: int | None, part: Fraction | None):
    assert found(USUAL, **overrides) == (amount, part, [])


@pytest.mark.parametrize(
    ("usual", "overrides"), [({}, {"cpu_guarantee": 0.5}), (USUAL, {"cpu_limit": None}), (USUAL, {"cpu_limit": 0})]
)
def test_a_guarantee_becomes_no_limit_in_silence(usual: dict[str, Any], overrides: dict[str, Any]):
    assert found(usual, **overrides) == (500, None, [ONLY_A_GUARANTEE])


def test_what_is_no_amount_is_said():
    assert found(USUAL, cpu_limit="{cpu}") == (
        8000,
        Fraction(1, 16),
        ["P: cpu_limit is no plain amount, which is left out."],
    )
    assert found({"cpu_limit": []}) == (None, None, ["cpu_limit is no plain amount, which is left out."])


def test_amounts_are_shown_as_settings_have_them():
    assert [
        format_setting_amount("cpu", 500),
        format_setting_amount("cpu", 2000),
        format_setting_amount("memory", 1 << 30),
    ] == [0.5, 2, "1G"]
    assert list(AMOUNT_TRAITS) == ["cpu", "memory"]
