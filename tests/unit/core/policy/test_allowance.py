"""The allowance of one user: every rule of a policy, and its place in the form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.core.catalog.node_labels import build_gpu_node_exclusion
from gpuspawner.core.catalog.policy_model import UNLIMITED, AmountRange, GPUTypeRule, Policy, Rule
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy.admission import admit
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.selection import validate
from tests.unit.core.policies import A100, CATALOG, EITHER, GIB, HOUR_S, T4, allowed, pool, server

POOLED = Policy(pools={"physics": pool(most=4)})
ONLY_T4 = Rule(gpus={"t4": GPUTypeRule()})


def refused(allowance: Allowance, options: dict[str, Any]) -> list[tuple[str, str]]:
    try:
        admit(options, allowance)
    except PolicyError as error:
        return [(problem.field, problem.code) for problem in error.problems]
    return []


def explain_most(allowance: Allowance, slug: str) -> str:
    """Return why a server may not have the most GPUs of a type that the hub offers; empty if it may."""
    selection = validate(two(slug, allowance.full_catalog.gpus[slug].max_count), allowance.full_catalog)
    return " ".join(each.message for each in allowance.check_selection(selection))


def two(slug: str = "t4", count: int = 2) -> dict[str, Any]:
    return {"gpu": slug, "gpu_count": count}


ONE_EACH = [
    # rule, what else is the case, options, field and code of the denial (none: let through)
    (Rule(images=("torch",)), {}, {"image": "torch"}, None),
    (Rule(images=("torch",)), {}, {}, None),
    (Rule(images=("torch",)), {}, {"image": "r"}, ("image", "image_not_allowed")),
    (Rule(images=("*",)), {}, {"image": "r"}, None),
    (Rule(images=("gone",)), {}, {}, ("image", "image_not_allowed")),
    (Rule(custom_images=True), {}, {"custom_image": "quay.io/a/b:1"}, None),
    (Rule(custom_images=False), {}, {"custom_image": "quay.io/a/b:1"}, ("custom_image", "custom_image_not_allowed")),
    (Rule(images=("r",)), {}, {"custom_image": "quay.io/a/b:1"}, None),
    (ONLY_T4, {}, {"gpu": "a100"}, ("gpu", "gpu_not_allowed")),
    (ONLY_T4, {}, {"gpu": "either"}, ("gpu", "gpu_not_allowed")),
    (Rule(gpus={"*": GPUTypeRule()}), {}, {"gpu": "a100"}, None),
    (Rule(gpus={}), {}, {"gpu": "t4"}, ("gpu", "gpu_not_allowed")),
    (Rule(max_gpus=2), {}, two(count=3), ("gpu_count", "gpu_quota")),
    (Rule(max_gpus=2), {"servers": [server("a100")]}, two(), ("gpu_count", "gpu_quota")),
    (Rule(max_gpus=2), {"servers": [server("a100", 2)]}, two(), ("gpu", "gpu_quota")),
    (Rule(max_gpus=0), {}, {"gpu": "t4"}, ("gpu", "gpu_not_allowed")),
    (Rule(max_gpus_per_server=0), {}, {"gpu": "t4"}, ("gpu", "gpu_not_allowed")),
    (Rule(max_servers_with_gpu=0), {}, {"gpu": "t4"}, ("gpu", "gpu_not_allowed")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus=0)}), {}, {"gpu": "t4"}, ("gpu", "gpu_not_allowed")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus=4)}), {"servers": [server("gone", 3)]}, two(), ("gpu_count", "gpu_quota")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus=4)}), {"servers": [server("", 3)]}, two(), ("gpu_count", "gpu_quota")),
    (Rule(max_gpus_per_server=1), {}, two(), ("gpu_count", "gpu_quota")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus=2)}), {"servers": [server("t4")]}, two(), ("gpu_count", "gpu_quota")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus=2)}), {"servers": [server("either", 2)]}, two(), ("gpu", "gpu_quota")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus_per_server=1)}), {}, two(), ("gpu_count", "gpu_quota")),
    (Rule(gpus={"*": GPUTypeRule(), "t4": GPUTypeRule(max_gpus=1)}), {}, two("either"), ("gpu_count", "gpu_quota")),
    (Rule(max_servers_with_gpu=1), {"servers": [server()]}, {"gpu": "a100"}, ("gpu", "server_quota")),
    (Rule(cpu=AmountRange(max=4000)), {}, {"cpu": 4}, None),
    (Rule(cpu=AmountRange(max=4000)), {}, {"cpu": 4.5}, ("cpu", "cpu_not_allowed")),
    (Rule(cpu=AmountRange(max=1000)), {}, {}, None),
    (Rule(cpu=AmountRange(min=4000)), {}, {"cpu": 3}, ("cpu", "cpu_not_allowed")),
    (Rule(cpu=AmountRange(min=4000, max=3000)), {}, {}, ("cpu", "cpu_not_allowed")),
    (Rule(memory=AmountRange(max=4 * GIB)), {}, {"memory": "5G"}, ("memory", "memory_not_allowed")),
    (Rule(memory=AmountRange(min=4 * GIB)), {}, {"memory": "4G"}, None),
    (Rule(max_runtime_s=HOUR_S), {}, {"run_time": "1h"}, None),
    (Rule(max_runtime_s=HOUR_S), {}, {"run_time": "2h"}, ("run_time", "run_time_not_allowed")),
    (Rule(max_runtime_s=HOUR_S), {}, {}, None),
    (Rule(gpus={"t4": GPUTypeRule(max_runtime_s=HOUR_S)}), {}, {"run_time": "2h"}, None),
    (
        Rule(gpus={"t4": GPUTypeRule(max_runtime_s=HOUR_S)}),
        {},
        {"run_time": "2h", "gpu": "t4"},
        ("run_time", "run_time_not_allowed"),
    ),
    (
        POOLED,
        {"groups": ["Physics"], "servers": [server("a100", 4, owner="bob", pools=("physics",))]},
        {"gpu": "a100"},
        ("gpu", "pool_quota"),
    ),
    (
        POOLED,
        {"groups": ["physics"], "servers": [server("a100", 3, owner="bob", pools=("physics",))]},
        two("a100"),
        ("gpu_count", "pool_quota"),
    ),
    (
        POOLED,
        {"groups": ["physics"], "servers": [server("a100", 3, owner="bob", pools=("physics",))]},
        two("either"),
        ("gpu_count", "pool_quota"),
    ),
    (POOLED, {"groups": None}, {}, ("", "policy_unreadable")),
    (Policy(groups={"ml": Rule()}), {"groups": None}, {}, ("", "policy_unreadable")),
    (Policy(users={"ada": Rule()}), {"groups": None}, {}, None),
    (Rule(max_gpus=4), {"known": False}, {"gpu": "t4"}, ("gpu", "policy_unreadable")),
    (Rule(max_servers_with_gpu=4), {"known": False}, {"gpu": "t4"}, ("gpu", "policy_unreadable")),
    (Rule(gpus={"t4": GPUTypeRule(max_gpus=4)}), {"known": False}, {"gpu": "t4"}, ("gpu", "policy_unreadable")),
    (Rule(max_gpus=0), {"known": False}, {"gpu": "t4"}, ("gpu", "gpu_not_allowed")),
    (POOLED, {"groups": ["physics"], "known": False}, {"gpu": "a100"}, ("gpu", "policy_unreadable")),
    (POOLED, {"groups": ["physics"], "known": False}, {"gpu": "t4"}, None),
    (Rule(max_gpus=4), {"known": False}, {}, None),
    (Rule(max_gpus_per_server=4), {"known": False}, {"gpu": "t4"}, None),
    (Policy(groups={"ml": Rule(max_gpus=1, deny=True)}), {"groups": ["ML"]}, two(), ("gpu_count", "gpu_quota")),
    (Policy(users={"ada": Rule(max_gpus=1)}), {}, two(), ("gpu_count", "gpu_quota")),
    (None, {"left": {"requests.nvidia.com/gpu": 2}}, two(), None),
    (None, {"left": {"requests.nvidia.com/gpu": 1}}, two(), ("gpu_count", "namespace_quota")),
    (None, {"left": {"requests.nvidia.com/gpu": 0}}, two(), ("gpu", "namespace_quota")),
    (None, {"left": {"requests.nvidia.com/gpu": 0}}, {}, None),
    (None, {"left": {"pods": 1}}, {}, None),
    (None, {"left": {"pods": 0}}, {}, ("", "namespace_quota")),
    (None, {"left": {"limits.cpu": 4000}}, {"cpu": 4.5}, ("cpu", "namespace_quota")),
    (None, {"left": {"requests.cpu": 2000}}, {"cpu": 4}, None),
    (None, {"left": {"requests.cpu": 2000}}, {"cpu": 4.5}, ("cpu", "namespace_quota")),
    (None, {"left": {"limits.cpu": 0}}, {}, ("cpu", "namespace_quota")),
    (None, {"left": {"limits.memory": 4 * GIB}}, {"memory": "5G"}, ("memory", "namespace_quota")),
    (None, {"left": {"requests.memory": 4 * GIB}}, {"memory": "5G"}, ("memory", "namespace_quota")),
    (Rule(cpu=AmountRange(max=2000)), {"left": {"limits.cpu": 4000}}, {"cpu": 8}, ("cpu", "cpu_not_allowed")),
]


@pytest.mark.parametrize(("policy", "case", "options", "expected"), ONE_EACH)
def test_every_rule(policy: Policy | Rule | None, case: dict[str, Any], options: dict[str, Any], expected: Any):
    assert refused(allowed(policy, **case), options) == ([] if expected is None else [expected])


def test_all_that_is_refused_is_said_at_once_and_nothing_that_was_not_asked_for():
    rule = Rule(max_gpus=1, images=("r",), cpu=AmountRange(max=1000), max_runtime_s=HOUR_S)
    found = refused(allowed(rule), {"image": "torch", "gpu": "t4", "gpu_count": 2})
    assert found == [("image", "image_not_allowed"), ("gpu_count", "gpu_quota")]


def test_a_choice_that_no_user_may_have_is_no_matter_of_policy():
    with pytest.raises(SelectionError) as caught:
        admit({"gpu": "h100", "cpu": 99}, allowed(ONLY_T4))
    assert not isinstance(caught.value, PolicyError)
    assert {problem.code for problem in caught.value.problems} == {"unknown_choice", "out_of_range"}


def test_what_follows_from_a_default_of_the_person_is_said_as_it_is():
    shared = replace(CATALOG.memory, min=GIB, default=GIB)
    with pytest.raises(SelectionError, match="at most 4 GiB, not 8 GiB"):
        admit({"shared_memory": "8G"}, allowed(Rule(memory=AmountRange(max=4 * GIB)), shared_memory=shared))


# -- what the form gets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slug", "most", "text"),
    [
        ("t4", 3, "You may have 4 GPUs at a time. 1 is in use by your server other."),
        ("a100", 2, "You may have 2 GPUs (A100) in one server."),
        ("either", 2, "You may have 2 GPUs (A100) in one server."),
    ],
)
def test_the_least_of_all_limits_counts(slug: str, most: int, text: str):
    limits = allowed(
        Rule(max_gpus=4, gpus={"a100": GPUTypeRule(max_gpus_per_server=2), "*": GPUTypeRule()}), servers=[server("t4")]
    )
    assert (limits.find_max_count(slug), explain_most(limits, slug)) == (most, text)


def test_of_a_type_that_the_hub_does_not_offer_a_server_may_have_none():
    assert allowed(Rule(max_gpus=9)).find_max_count("h100") == 0


def test_where_everything_is_blocked_so_is_each_choice():
    limits = allowed(POOLED, groups=None)
    assert limits.blocked is not None
    every = (
        limits.check_gpu("t4"),
        limits.check_image("r"),
        limits.check_custom_image(),
        *limits.check_selection(admit({}, allowed()).selection),
    )
    assert set(every) == {limits.blocked}
    assert (limits.find_max_count("t4"), dict(limits.catalog.gpus), dict(limits.catalog.presets)) == (0, {}, {})


@pytest.mark.parametrize(
    ("rule", "known", "text"),
    [
        (Rule(max_gpus=4), True, "3 of 4 GPUs in use by you"),
        (Rule(max_gpus=2), True, "3 GPUs in use by you, you may have 2 at a time"),
        (Rule(max_gpus=0), True, ""),
        (Rule(max_gpus=UNLIMITED), True, ""),
        (Rule(), True, ""),
        (Rule(max_gpus=4), False, ""),
    ],
)
def test_the_number_in_use_is_shown_where_there_is_a_limit(rule: Rule, known: bool, text: str):
    servers = [server("t4"), server("a100", 2, name="third"), server("t4", 5, name=""), server("t4", owner="bob")]
    assert allowed(rule, servers=servers, known=known).describe_usage() == text


def test_without_a_policy_and_a_quota_nothing_is_worked_out():
    limits = allowed(servers=[server("t4", 99)], known=False, groups=None)
    assert limits.catalog is limits.full_catalog
    assert (limits.find_max_count("t4"), limits.check_gpu("t4"), limits.blocked) == (8, None, None)
    assert explain_most(limits, "t4") == ""


def test_servers_without_a_gpu_stay_off_nodes_of_types_out_of_reach():
    found = allowed(ONLY_T4).catalog
    assert tuple(found.hidden) == (A100,)
    assert build_gpu_node_exclusion(found) == build_gpu_node_exclusion(CATALOG)


def test_a_preset_out_of_reach_can_still_be_changed_to_what_is_in_reach():
    limits = allowed(Rule(gpus={"t4": GPUTypeRule()}))
    assert refused(limits, {"preset": "big"}) == [("gpu", "gpu_not_allowed")]
    assert admit({"preset": "big", "gpu": "t4"}, limits).selection.image == "torch"


# -- how long a server runs --------------------------------------------------------------------------------------------

LIMITED_T4 = replace(T4, max_runtime_s=4 * HOUR_S)
SHORT = {"gpus": {"t4": LIMITED_T4, "a100": A100, "either": replace(EITHER, members=(LIMITED_T4, A100))}}


@pytest.mark.parametrize(
    ("rule", "slug", "longest_s"),
    [
        (Rule(), "t4", 4 * HOUR_S),
        (Rule(max_runtime_s=HOUR_S), "t4", HOUR_S),
        (Rule(max_runtime_s=9 * HOUR_S), "t4", 4 * HOUR_S),
        (Rule(max_runtime_s=UNLIMITED), "t4", 4 * HOUR_S),
        (Rule(gpus={"a100": GPUTypeRule(max_runtime_s=60)}), "a100", 60),
        (Rule(gpus={"*": GPUTypeRule(max_runtime_s=UNLIMITED)}, max_runtime_s=60), "a100", 60),
    ],
)
def test_the_shortest_run_time_counts(rule: Rule, slug: str | None, longest_s: int | None):
    assert allowed(rule, **SHORT).find_max_run_time_s(slug) == longest_s


@pytest.mark.parametrize("policy", [None, Rule()])
def test_a_default_run_time_becomes_the_longest_of_the_type(policy: Rule | None):
    limits = allowed(policy, **SHORT)
    assert admit({}, limits).selection.run_time_s == 8 * HOUR_S
    assert admit({"gpu": "t4"}, limits).selection.run_time_s == 4 * HOUR_S
    assert refused(limits, {"gpu": "t4", "run_time": "5h"}) == [("run_time", "run_time_not_allowed")]


def test_a_limit_below_what_can_be_chosen_leaves_nothing_to_choose():
    limits = allowed(Rule(max_runtime_s=60))
    selection = admit({}, limits).selection
    assert (selection.run_time_s, limits.catalog.max_runtime_s) == (None, 60)
    assert refused(limits, {"run_time": "15m"}) == [("run_time", "run_time_not_allowed")]
