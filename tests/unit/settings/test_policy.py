"""From settings of who may have what to the core's values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpuspawner.core.catalog.policy_model import (
    UNLIMITED,
    Access,
    CPURange,
    GPUPool,
    GPUTypeRule,
    MemoryRange,
    NamedRule,
    Person,
    Policy,
    Rule,
)
from gpuspawner.settings import Settings

FULL = yaml.safe_load("""
policy:
  hide: true
  default: {images: ["*"], custom_images: true, gpus: ["*"], max_gpus: 4, max_gpus_per_server: 2,
    max_servers_with_gpu: 2, cpu: {min: 1, max: 8}, memory: {max: 64G}, max_runtime: 8h}
  groups:
    ML: {gpus: {a100-80gb: {max_gpus: 2, max_gpus_per_server: 1, max_runtime: 4h}, "*": {}}, max_gpus: unlimited}
    probation: {deny: true, gpus: [t4], max_gpus: 1}
  users: {Ada: {max_gpus: 8}}
pools:
  physics: {groups: [Physics, astro], gpus: [a100-80gb], max_gpus: 16, display_name: The physicists}
  rest: {groups: [art], max_gpus: 1, order: 1}
""")


def policy(raw: Any) -> Policy | None:
    return Settings.parse(raw).configured.policy


def test_all_keys_are_carried_over():
    assert policy(FULL) == Policy(
        hide=True,
        default=Rule(
            images=("*",),
            custom_images=True,
            gpus={"*": GPUTypeRule()},
            max_gpus=4,
            max_gpus_per_server=2,
            max_servers_with_gpu=2,
            cpu=CPURange(min=1000, max=8000),
            memory=MemoryRange(max=64 << 30),
            max_runtime_s=8 * 3600,
        ),
        groups={
            "ml": NamedRule(
                gpus={
                    "a100-80gb": GPUTypeRule(max_gpus=2, max_gpus_per_server=1, max_runtime_s=4 * 3600),
                    "*": GPUTypeRule(),
                },
                max_gpus=UNLIMITED,
            ),
            "probation": NamedRule(gpus={"t4": GPUTypeRule()}, max_gpus=1, deny=True),
        },
        group_names=frozenset({"ML", "probation", "Physics", "astro", "art"}),
        gpu_names=frozenset({"a100-80gb", "t4"}),
        users={"Ada": NamedRule(max_gpus=8)},
        pools={
            "rest": GPUPool(slug="rest", display_name="rest", groups=("art",), gpus=("*",), max_gpus=1),
            "physics": GPUPool(
                slug="physics",
                display_name="The physicists",
                groups=("physics", "astro"),
                gpus=("a100-80gb",),
                max_gpus=16,
            ),
        },
    )


@pytest.mark.parametrize("raw", [{}, {"policy": None}, {"policy": {}}, {"policy": {}, "pools": {}}, {"pools": None}])
def test_where_nothing_is_said_there_is_no_policy(raw: Any):
    assert policy(raw) is None


def test_a_type_of_its_own_says_how_long_it_is_had():
    raw = {"gpus": {"t4": {"resource": "nvidia.com/gpu", "max_runtime": "12h"}}}
    assert Settings.parse(raw).configured.gpus["t4"].max_runtime_s == 12 * 3600


def test_a_rule_that_is_not_enabled_is_not_there():
    groups = {"ml": {"enabled": False, "gpus": ["nonsense!"], "cpu": {"min": 4, "max": 1}, "deny": True}, "ML": {}}
    users = {"ada": {"enabled": False, "max_gpus": 0}, "bob": {"enabled": True, "max_gpus": 1}}
    found = policy({"policy": {"groups": groups, "users": users}})
    assert found is not None
    assert (found.groups, found.users) == ({"ml": NamedRule()}, {"bob": NamedRule(max_gpus=1)})


IMAGES = {"lab": {"image": "quay.io/acme/lab:1"}, "torch": {"image": "quay.io/acme/torch:1"}}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"images": ["torch"]}, False),
        ({"images": ["torch"], "custom_images": True}, True),
        ({"images": "*"}, None),
        ({"images": ["torch", "*"]}, None),
        ({"images": ["*"], "custom_images": False}, False),
        ({"max_gpus": 1}, None),
    ],
    ids=["a list", "a list and leave", "all", "all in a list", "all but custom ones", "nothing"],
)
@pytest.mark.parametrize("deny", [False, True], ids=["gives", "denies"])
def test_a_rule_that_lists_images_allows_no_others_unless_it_says_so(rule: Any, expected: bool | None, deny: bool):
    found = policy({"images": IMAGES, "policy": {"groups": {"ml": {**rule, "deny": deny}}}})
    assert found is not None
    assert found.groups["ml"].custom_images is expected


STAFF = {"allowed_groups": ["Staff", "tutors"], "allowed_users": ["Ada"]}
ACCESS = Access(groups=frozenset({"staff", "tutors"}), users=frozenset({"Ada"}))
IMAGE, TYPE = {"image": "lab:1"}, {"resource": "nvidia.com/gpu"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"presets": {"p": {"cpu": 1}}}, None, id="open"),
        pytest.param({"presets": {"p": STAFF}}, {("preset", "p"): ACCESS}, id="preset"),
        pytest.param({"images": {"lab": {**IMAGE, **STAFF}}}, {("image", "lab"): ACCESS}, id="image"),
        pytest.param({"gpus": {"t4": {**TYPE, **STAFF}}}, {("gpu", "t4"): ACCESS}, id="GPU type"),
        pytest.param(
            {"presets": {"p": {"allowed_users": ["ada"]}}},
            {("preset", "p"): Access(users=frozenset({"ada"}))},
            id="users only",
        ),
        pytest.param({"presets": {"p": {**STAFF, "enabled": False}}}, None, id="taken out"),
    ],
)
def test_who_may_choose_an_entry_is_policy(raw: dict[str, Any], expected: Any):
    found = policy(raw)
    assert (found and found.access) == expected
    assert (found is not None and found.depends_on_groups) == any(access.groups for access in (expected or {}).values())


def test_rules_stand_beside_who_may_choose():
    found = policy({"presets": {"p": {"allowed_groups": ["staff"]}}, "policy": {"default": {"max_gpus": 1}}})
    assert found is not None
    assert (found.default.max_gpus, found.admits(Person(name="ada"), "preset", "p")) == (1, False)
