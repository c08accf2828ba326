"""Limits of the number of GPUs in one more server."""

from __future__ import annotations

import pytest

from gpuspawner.core.catalog.policy_model import UNLIMITED, GPUTypeRule, Person, Policy, Rule
from gpuspawner.core.policy.gpu_limits import count_used_gpus, list_gpu_limits, list_type_rules
from gpuspawner.core.policy.usage import RemainingQuota, ServerUsage, Usage
from tests.unit.core.policies import A100, EITHER, T4, catalog, pool, server

ADA = Person(name="ada", groups=frozenset({"physics"}))


def found(gpu=T4, *, policy: Policy | None = None, usage: Usage | None = None, **rule) -> list[tuple[int, str]]:
    every = list_gpu_limits(gpu, catalog(policy), person=ADA, rule=Rule(**rule), usage=usage or Usage())
    return [(each.left, each.code) for each in every]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, []),
        ({"max_gpus": UNLIMITED, "max_gpus_per_server": UNLIMITED, "max_servers_with_gpu": UNLIMITED}, []),
        ({"max_gpus_per_server": 2}, [(2, "gpu_quota")]),
        ({"max_gpus": 4}, [(1, "gpu_quota")]),
        ({"max_gpus": 2}, [(-1, "gpu_quota")]),
        ({"max_gpus": 0}, [(-3, "gpu_not_allowed")]),
        ({"max_gpus_per_server": 0}, [(0, "gpu_not_allowed")]),
        ({"max_servers_with_gpu": 0}, [(0, "gpu_not_allowed")]),
        ({"gpus": {"t4": GPUTypeRule(max_gpus=0)}}, [(-1, "gpu_not_allowed")]),
        ({"max_servers_with_gpu": 2}, [(0, "server_quota")]),
        ({"max_servers_with_gpu": 3}, [(UNLIMITED, "server_quota")]),
        ({"gpus": {"t4": GPUTypeRule(max_gpus_per_server=1)}}, [(1, "gpu_quota")]),
        ({"gpus": {"t4": GPUTypeRule(max_gpus=2)}}, [(1, "gpu_quota")]),
        ({"gpus": {"t4": GPUTypeRule(), "a100": GPUTypeRule(max_gpus=0)}}, []),
    ],
)
def test_each_limit_leaves_what_other_servers_do_not_hold(rule, expected):
    own = (server("t4", 1), server("a100", 1, name="two"), server("a100", 1, name="two"), server(None, 0, name="cpu"))
    assert found(usage=Usage(own=own), **rule) == expected


def test_one_of_several_types_counts_as_each_of_them():
    rule = {
        "gpus": {"either": GPUTypeRule(max_gpus=9), "a100": GPUTypeRule(max_gpus=2), "h100": GPUTypeRule(max_gpus=1)}
    }
    usage = Usage(own=(server("a100", 1), server("t4", 4)))
    assert found(EITHER, usage=usage, **rule) == [(9, "gpu_quota"), (1, "gpu_quota")]
    assert [each.slug for each, _ in list_type_rules(EITHER, Rule(**rule))] == ["either", "a100"]


@pytest.mark.parametrize(
    ("own", "used"),
    [
        ((), 0),
        ((server("t4", 2), server("a100", 1)), 2),
        ((server("either", 3),), 3),
        ((server("gone", 3),), 3),
        ((server("", 3),), 3),
        ((server(None, 0),), 0),
    ],
)
def test_what_may_be_of_a_type_is_taken_for_it(own: tuple[ServerUsage, ...], used: int):
    assert count_used_gpus("t4", catalog(), usage=Usage(own=own)) == used


def test_pools_of_the_persons_groups_leave_what_all_together_do_not_hold():
    pools = {"physics": pool(most=4), "art": pool("art", groups=["art"]), "old": pool("old", most=UNLIMITED)}
    usage = Usage(pools={"physics": 3, "art": 4})
    assert found(A100, policy=Policy(pools=pools), usage=usage) == [(1, "pool_quota")]
    assert found(T4, policy=Policy(pools=pools), usage=usage) == []


def test_the_quota_of_the_namespace_leaves_what_it_leaves_of_the_resource():
    assert found(usage=Usage(quota=RemainingQuota(left={"requests.nvidia.com/gpu": 3}))) == [(3, "namespace_quota")]
    assert found(usage=Usage(quota=RemainingQuota(left={"requests.amd.com/gpu": 3}))) == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"max_gpus": 4}, [(0, "policy_unreadable")]),
        ({"max_gpus": 0}, [(0, "gpu_not_allowed"), (0, "policy_unreadable")]),
        ({"max_servers_with_gpu": 4}, [(0, "policy_unreadable")]),
        ({"gpus": {"t4": GPUTypeRule(max_gpus=4)}}, [(0, "policy_unreadable")]),
        ({"max_gpus_per_server": 2}, [(2, "gpu_quota")]),
        ({}, []),
    ],
)
def test_while_gpus_cannot_be_counted_only_types_without_a_limit_are_given(rule, expected):
    assert found(usage=Usage(known=False), **rule) == expected


def test_while_gpus_cannot_be_counted_a_pool_gives_nothing():
    policy = Policy(pools={"physics": pool()})
    assert found(A100, policy=policy, usage=Usage(known=False)) == [(0, "policy_unreadable")]
    assert found(T4, policy=policy, usage=Usage(known=False)) == []
