"""How two rules become one, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.catalog.policy_model import UNLIMITED, AmountRange, GPUTypeRule, Rule
from gpuspawner.core.policy.rules import cap_rule, find_member_rule, merge_most_generous, overlay_rule

ANY, ONE, TWO = GPUTypeRule(), GPUTypeRule(max_gpus=1, max_runtime_s=60), GPUTypeRule(max_gpus=2, max_gpus_per_server=1)


def images(*slugs: str) -> tuple[str, ...]:
    return tuple(sorted(slugs))


@pytest.mark.parametrize(
    ("key", "base", "own", "expected"),
    [
        ("max_gpus", 1, None, 1),
        ("max_gpus", 4, 2, 2),
        ("max_gpus", 4, UNLIMITED, UNLIMITED),
        ("max_gpus", None, 0, 0),
        ("custom_images", True, False, False),
        ("images", images("a"), images("b"), images("b")),
        ("gpus", {"t4": ONE}, {"a100": ANY}, {"a100": ANY}),
        ("gpus", {"t4": ONE}, {}, {}),
        ("cpu", AmountRange(min=1, max=8), AmountRange(max=4), AmountRange(min=1, max=4)),
        ("cpu", AmountRange(max=8), AmountRange(min=2), AmountRange(min=2, max=8)),
        ("memory", None, AmountRange(min=2), AmountRange(min=2)),
        ("memory", AmountRange(min=2), None, AmountRange(min=2)),
    ],
)
def test_a_key_of_the_later_rule_replaces_that_of_the_earlier(key: str, base: Any, own: Any, expected: Any):
    assert overlay_rule(Rule(**{key: base}), Rule(**{key: own})) == Rule(**{key: expected})


@pytest.mark.parametrize(
    ("key", "one", "other", "expected"),
    [
        ("max_gpus", 1, 4, 4),
        ("max_gpus", 1, None, None),
        ("max_gpus", 1, UNLIMITED, UNLIMITED),
        ("max_gpus_per_server", 2, 1, 2),
        ("max_servers_with_gpu", 0, 1, 1),
        ("max_runtime_s", 3600, 60, 3600),
        ("max_runtime_s", 3600, None, None),
        ("custom_images", True, False, True),
        ("custom_images", None, False, None),
        ("images", images("a"), images("b"), images("a", "b")),
        ("images", images("a"), images("*"), images("a", "*")),
        ("images", images("a"), None, None),
        ("gpus", {"t4": ONE}, {"a100": TWO}, {"t4": ONE, "a100": TWO}),
        ("gpus", {"t4": ONE}, {"t4": TWO}, {"t4": GPUTypeRule(max_gpus=2)}),
        ("gpus", {"t4": ONE, "*": ANY}, {"t4": GPUTypeRule(max_gpus=3)}, {"t4": GPUTypeRule(max_gpus=3), "*": ANY}),
        (
            "gpus",
            {"t4": ONE},
            {"*": GPUTypeRule(max_gpus=3)},
            {"t4": GPUTypeRule(max_gpus=3), "*": GPUTypeRule(max_gpus=3)},
        ),
        ("gpus", {"t4": ONE}, {}, {"t4": ONE}),
        ("gpus", {"t4": ONE}, None, None),
        ("cpu", AmountRange(min=2, max=4), AmountRange(min=1, max=8), AmountRange(min=1, max=8)),
        ("memory", AmountRange(min=2, max=4), AmountRange(max=2), AmountRange(max=4)),
        ("memory", AmountRange(min=2, max=4), None, None),
    ],
)
def test_the_more_generous_wins_and_nothing_said_is_no_limit(key: str, one: Any, other: Any, expected: Any):
    for pair in ((one, other), (other, one)):
        assert merge_most_generous([Rule(**{key: each}) for each in pair]) == Rule(**{key: expected})


@pytest.mark.parametrize(
    ("key", "given", "cap", "expected"),
    [
        ("max_gpus", 4, 1, 1),
        ("max_gpus", 1, 4, 1),
        ("max_gpus", None, 4, 4),
        ("max_gpus", 4, None, 4),
        ("max_gpus", UNLIMITED, 4, 4),
        ("max_servers_with_gpu", 4, 0, 0),
        ("max_runtime_s", 60, 3600, 60),
        ("custom_images", True, False, False),
        ("custom_images", False, True, False),
        ("custom_images", None, False, False),
        ("images", images("a", "b"), images("b", "c"), images("b")),
        ("images", images("*"), images("b"), images("b")),
        ("images", images("a"), images("*"), images("a")),
        ("images", None, images("b"), images("b")),
        ("gpus", {"t4": ANY}, {"a100": ANY}, {}),
        ("gpus", None, {"t4": ONE}, {"t4": ONE}),
        ("gpus", {"*": TWO}, {"t4": ONE}, {"t4": GPUTypeRule(max_gpus=1, max_gpus_per_server=1, max_runtime_s=60)}),
        (
            "gpus",
            {"*": ANY, "t4": TWO},
            {"*": ONE, "a100": ANY},
            {"*": ONE, "a100": ANY, "t4": GPUTypeRule(max_gpus=1, max_gpus_per_server=1, max_runtime_s=60)},
        ),
        ("cpu", AmountRange(min=1, max=8), AmountRange(min=2, max=4), AmountRange(min=2, max=4)),
        ("cpu", AmountRange(min=1, max=8), AmountRange(max=16), AmountRange(min=1, max=8)),
        ("memory", None, AmountRange(max=16), AmountRange(max=16)),
    ],
)
def test_a_cap_gives_nothing_and_takes_what_it_says(key: str, given: Any, cap: Any, expected: Any):
    assert cap_rule(Rule(**{key: given}), Rule(**{key: cap}, deny=True)) == Rule(**{key: expected})


SLICED = {"t4": GPUTypeRule(max_gpus=1), "either": GPUTypeRule()}


def said_of_t4(rule: Rule) -> GPUTypeRule | None:
    return find_member_rule(rule, "t4", combined="either")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (SLICED, {"a100": GPUTypeRule()}, GPUTypeRule(max_gpus=1)),
        (SLICED, {"either": GPUTypeRule()}, None),
        ({"either": GPUTypeRule()}, {"t4": GPUTypeRule(max_gpus=0)}, None),
        (SLICED, {"*": GPUTypeRule(max_gpus=3)}, GPUTypeRule(max_gpus=3)),
    ],
)
def test_a_type_in_a_choice_has_the_limits_of_the_most_generous_of_the_rules_that_give_the_choice(
    one: dict[str, GPUTypeRule], other: dict[str, GPUTypeRule], expected: GPUTypeRule | None
):
    rules = Rule(gpus=one), Rule(gpus=other)
    assert [said_of_t4(merge_most_generous(pair)) for pair in (rules, rules[::-1])] == [expected, expected]


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        ({"either": GPUTypeRule()}, GPUTypeRule(max_gpus=1)),
        ({"either": GPUTypeRule(), "t4": GPUTypeRule(max_gpus=0)}, GPUTypeRule(max_gpus=0)),
        ({"*": GPUTypeRule(max_gpus_per_server=1)}, GPUTypeRule(max_gpus=1, max_gpus_per_server=1)),
    ],
)
def test_a_cap_that_does_not_name_a_type_keeps_its_limit_in_a_choice(
    cap: dict[str, GPUTypeRule], expected: GPUTypeRule | None
):
    assert said_of_t4(cap_rule(Rule(gpus=SLICED), Rule(gpus=cap, deny=True))) == expected
