from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuspawner.cli.inventory.rows import describe_access, find_type_access
from gpuspawner.core.catalog.model import Bounds, Catalog
from gpuspawner.core.catalog.policy_model import AmountRange, Policy, Rule
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.settings import Settings

GPUS = {"a100": {"resource": "nvidia.com/gpu"}, "mi300": {"resource": "amd.com/gpu"}}


def catalog(policy: dict[str, Any] | None) -> Catalog:
    raw = {"gpus": GPUS} if policy is None else {"gpus": GPUS, "policy": policy}
    settings = Settings.parse(raw)
    return assemble_catalog(settings.configured, Inventory(), table=settings.table, fallback_image="i")


def test_without_a_policy_every_user_may_have_everything():
    for_all = {"all_users": True, "but": {"groups": [], "users": []}}
    assert find_type_access(catalog(None)) == {"a100": for_all, "mi300": for_all}


@pytest.mark.parametrize(
    ("policy", "a100", "mi300"),
    [
        ({"default": {"gpus": {"a100": {}}}}, "all users", "no user"),
        (
            {"default": {"gpus": {"a100": {}}}, "groups": {"Physics": {"gpus": {"*": {}}}}},
            "all users",
            "group physics",
        ),
        (
            {"groups": {"guests": {"deny": True, "gpus": {"mi300": {}}}}},
            "all users except group guests",
            "all users",
        ),
        (
            {"default": {"max_gpus": 0}, "users": {"ada": {"max_gpus": 1}, "bob": {"max_gpus": 0}}},
            "user ada",
            "user ada",
        ),
    ],
)
def test_access_to_a_type_follows_the_rules_of_form_and_gate(policy: dict[str, Any], a100: str, mi300: str):
    found = find_type_access(catalog(policy))
    assert {slug: describe_access(who) for slug, who in found.items()} == {"a100": a100, "mi300": mi300}


def test_a_user_who_may_start_nothing_at_all_may_have_no_gpu():
    cpu = Bounds(min=1000, max=8000, step=1000, default=1000)
    policy = Policy(default=Rule(cpu=AmountRange(min=64_000)), users={"ada": Rule(cpu=AmountRange(min=1000))})
    found = find_type_access(replace(catalog(None), cpu=cpu, policy=policy))
    assert {describe_access(who) for who in found.values()} == {"user ada"}
