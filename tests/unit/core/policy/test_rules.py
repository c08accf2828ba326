"""All rules of a policy, merged for one user."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gpuspawner.core.catalog.policy_model import UNLIMITED, AmountRange, GPUTypeRule, Person, Policy, Rule
from gpuspawner.core.policy.rules import find_gpu_pools, resolve_rule
from tests.unit.core.policies import A100, EITHER, T4, pool

POLICY = Policy(
    default=Rule(max_gpus=1, max_servers_with_gpu=1, cpu=AmountRange(max=4), max_runtime_s=60),
    groups={
        "ml": Rule(max_gpus=4, gpus={"a100": GPUTypeRule()}),
        "vision": Rule(max_gpus=2, gpus={"t4": GPUTypeRule()}, max_runtime_s=UNLIMITED),
        "probation": Rule(max_gpus=1, gpus={"t4": GPUTypeRule()}, deny=True),
        "night": Rule(max_runtime_s=30, max_gpus=3, deny=True),
    },
    users={"ada": Rule(max_gpus=8), "bob": Rule(max_gpus=2, deny=True)},
)


def limits(name: str, *groups: str) -> dict[str, object]:
    """Return the limits that a user has beyond those of all users."""
    rule = resolve_rule(POLICY, Person(name=name, groups=frozenset(groups)))
    keys = ("max_gpus", "gpus", "max_runtime_s", "deny")
    return {key: value for key in keys if (value := getattr(rule, key)) != getattr(POLICY.default, key)}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), {}),
        (("unheard of",), {}),
        (("ml",), {"max_gpus": 4, "gpus": {"a100": GPUTypeRule()}}),
        (("ML",), {"max_gpus": 4, "gpus": {"a100": GPUTypeRule()}}),
        (("ml", "unheard of"), {"max_gpus": 4, "gpus": {"a100": GPUTypeRule()}}),
        (
            ("ml", "vision"),
            {"max_gpus": 4, "gpus": {"a100": GPUTypeRule(), "t4": GPUTypeRule()}, "max_runtime_s": UNLIMITED},
        ),
        (("ml", "probation"), {"gpus": {}}),
        (("vision", "probation"), {"gpus": {"t4": GPUTypeRule()}, "max_runtime_s": UNLIMITED}),
        (("ml", "night"), {"max_gpus": 3, "gpus": {"a100": GPUTypeRule()}, "max_runtime_s": 30}),
        (("ml", "night", "probation"), {"gpus": {}, "max_runtime_s": 30}),
        (("probation",), {"gpus": {"t4": GPUTypeRule()}}),
    ],
)
def test_the_most_generous_group_wins_unless_one_denies(groups: Iterable[str], expected: dict[str, object]):
    assert limits("eve", *groups) == expected


@pytest.mark.parametrize(
    ("name", "groups", "most"),
    [
        ("ada", (), 8),
        ("ada", ("ml",), 8),
        ("ada", ("probation",), 8),
        ("Ada", (), 1),
        ("bob", (), 1),
        ("bob", ("ml",), 2),
    ],
)
def test_rules_for_one_user_come_last(name: str, groups: Iterable[str], most: int):
    assert resolve_rule(POLICY, Person(name=name, groups=frozenset(groups))).max_gpus == most


def test_groups_that_could_not_be_read_give_nothing():
    assert resolve_rule(POLICY, Person(name="eve", groups=None)) == POLICY.default


POOLED = Policy(
    pools={
        "physics": pool("physics", groups=("physics", "astro"), gpus=frozenset({"a100"})),
        "science": pool("science", groups=("physics", "bio"), gpus=frozenset({"*"})),
    }
)


@pytest.mark.parametrize(
    ("groups", "gpu", "expected"),
    [
        ({"Physics"}, A100, ("physics", "science")),
        ({"physics"}, T4, ("science",)),
        ({"astro"}, A100, ("physics",)),
        ({"astro"}, T4, ()),
        ({"astro"}, EITHER, ("physics",)),
        ({"bio", "astro"}, A100, ("physics", "science")),
        ({"art"}, A100, ()),
        (set(), A100, ()),
        (None, A100, ()),
        ({"physics"}, None, ()),
    ],
)
def test_a_server_counts_in_each_pool_of_its_persons_groups_that_has_its_type(groups, gpu, expected):
    person = Person(name="eve", groups=None if groups is None else frozenset(groups))
    assert find_gpu_pools(POOLED, person, gpu=gpu) == expected


def test_without_a_policy_there_are_no_pools():
    assert find_gpu_pools(None, Person(name="eve", groups=frozenset({"physics"})), gpu=A100) == ()
