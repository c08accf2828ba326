"""Rules and pools must agree with the images and types on offer."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.settings.checks import check_policy
from gpuspawner.settings.models import SETTINGS

IMAGES = {"torch": {"image": "a"}, "old": {"image": "b", "enabled": False}}
GPUS = {"t4": {"resource": "nvidia.com/gpu"}, "p100": {"resource": "nvidia.com/gpu", "enabled": False}}


def found(**raw: Any) -> dict[str, str]:
    problems = check_policy(SETTINGS.validate_python({"discover_gpus": False, "gpus": GPUS, **raw}))
    return {problem.field: problem.message for problem in problems}


def default(**rule: Any) -> dict[str, Any]:
    return {"policy": {"default": rule}}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        default(gpus="*", images="*", max_gpus_per_server=1, max_gpus=1),
        default(gpus=["t4"], max_gpus=1, max_gpus_per_server="unlimited", max_runtime="30m"),
        default(images=["default"]),
        {**default(images=["torch", "*"]), "images": IMAGES},
        {**default(gpus={"h100": {}, "*": {}}), "discover_gpus": True},
        {**default(cpu={"max": 0.5}, memory={"min": "64G"})},
        {**default(cpu={"min": 8, "max": "unlimited"}), "cpu": {"max": 8}},
        {"policy": {"default": {"cpu": {"max": 4}}, "groups": {"ml": {"cpu": {"min": 8, "max": 16}}}}},
        {"policy": {"default": {"cpu": {"max": 4}}, "users": {"ada": {"deny": True, "cpu": {"min": 8}}}}},
        {
            **default(gpus=["l40s", "a100-80gb"]),
            "gpus": {"l40": {"resource": "a/b"}, "a100-40gb": {"resource": "a/b"}},
            "discover_gpus": True,
        },
        {"policy": {"groups": {"ML": {"deny": True}, "art": {}}, "users": {"ml": {}, "ML": {}}}},
        {"pools": {"p": {"groups": ["a"], "max_gpus": 0}, "q": {"enabled": False}}},
        {"pools": {"p": {"groups": ["a"], "gpus": ["t4"], "max_gpus": 1}}},
    ],
)
def test_right_values_are_no_problem(raw: dict[str, Any]):
    assert found(**raw) == {}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        (
            default(deny=True),
            "policy.default.deny",
            "must be left out: default is no cap. Write the limits of all users directly",
        ),
        (default(gpus=["t5"]), "policy.default.gpus.t5", "there is no GPU type 't5'"),
        (default(gpus=["t4s"]), "policy.default.gpus.t4s", "there is no GPU type 't4s'. Did you mean 't4'?"),
        (default(gpus=["p100"]), "policy.default.gpus.p100", "'p100' is taken out by enabled: false"),
        ({**default(gpus=["H100"]), "discover_gpus": True}, "policy.default.gpus.H100", "there is no GPU type 'H100'"),
        (default(images=["torch"]), "policy.default.images.0", "there is no image 'torch'"),
        (
            {**default(images=["torch", "tosch"]), "images": IMAGES},
            "policy.default.images.1",
            "there is no image 'tosch'. Did you mean 'torch'?",
        ),
        (
            {**default(images=["old"]), "images": IMAGES},
            "policy.default.images.0",
            "'old' is taken out by enabled: false",
        ),
        (
            default(images=[]),
            "policy.default.images",
            "must name at least one image: without one no server starts",
        ),
        (
            default(max_gpus=1, max_gpus_per_server=2),
            "policy.default.max_gpus_per_server",
            "must be at most max_gpus (1), which holds over all servers, not 2",
        ),
        (
            {"policy": {"groups": {"ml": {"gpus": {"t4": {"max_gpus": 1, "max_gpus_per_server": 2}}}}}},
            "policy.groups.ml.gpus.t4.max_gpus_per_server",
            "must be at most max_gpus (1), which holds over all servers, not 2",
        ),
        (
            default(cpu={"min": 4, "max": 2}),
            "policy.default.cpu.max",
            "must be at least policy.default.cpu.min (4), not 2",
        ),
        (
            {**default(cpu={"max": 0.5}), "cpu": {"min": 1, "max": 8}},
            "policy.default.cpu.max",
            "must be at least cpu.min (1), not 0.5",
        ),
        (
            {**default(memory={"min": "9G"}), "memory": {"max": "8G"}},
            "policy.default.memory.min",
            "must be at most memory.max (8 GiB), not 9 GiB",
        ),
        (
            {"policy": {"default": {"cpu": {"max": 4}}, "groups": {"ml": {"cpu": {"min": 8}}}}},
            "policy.groups.ml.cpu.min",
            "must be at most policy.default.cpu.max (4), not 8; or say max here as well",
        ),
        (
            {"policy": {"default": {"memory": {"min": "4G"}}, "users": {"ada": {"memory": {"max": "2G"}}}}},
            "policy.users.ada.memory.max",
            "must be at least policy.default.memory.min (4 GiB), not 2 GiB; or say min here as well",
        ),
        (
            {"policy": {"groups": {"caf\u00e9": {}, "cafe\u0301": {}}}},
            "policy.groups.cafe\u0301",
            "is the same group as 'caf\u00e9': upper and lower case do not count",
        ),
        ({"pools": {"p": {"max_gpus": 1}}}, "pools.p.groups", "is required: the groups that share the pool"),
        ({"pools": {"p": {"groups": ["a"]}}}, "pools.p.max_gpus", "is required"),
        (
            {"pools": {"p": {"groups": ["a"], "max_gpus": 1, "gpus": ["t4", "t5"]}}},
            "pools.p.gpus.1",
            "there is no GPU type 't5'",
        ),
        (
            {"pools": {"p": {"groups": ["a"], "max_gpus": 1, "gpus": []}}},
            "pools.p.gpus",
            "must name at least one GPU type; left out, all count",
        ),
    ],
)
def test_wrong_values_are_named_by_their_path(raw: dict[str, Any], path: str, message: str):
    assert found(**raw) == {path: message}
