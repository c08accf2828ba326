"""The rest of ResourceQuotas, as Kubernetes' own quota admission counts it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.core.policy.usage import read_remaining_quota

GPU = "requests.nvidia.com/gpu"


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used or {}}}


def left(*quotas: Any) -> dict[str, int] | None:
    found = read_remaining_quota(list(quotas))
    return None if found is None else dict(found.left)


def test_a_limit_that_was_lowered_below_what_is_used_leaves_nothing():
    assert left(quota({GPU: "2"}, {GPU: "3"})) == {GPU: 0}


def test_amounts_are_in_millicores_and_bytes():
    hard = {"limits.cpu": "4", "requests.cpu": "2500m", "limits.memory": "1Gi", "requests.memory": "1G"}
    used = {"limits.cpu": "500m"}
    assert left(quota(hard, used)) == {
        "limits.cpu": 3500,
        "requests.cpu": 2500,
        "limits.memory": 2**30,
        "requests.memory": 10**9,
    }


def test_short_words_mean_requests_and_pods():
    assert left(quota({"cpu": "1", "memory": "1Ki", "count/pods": "3"}, {"cpu": "1"})) == {
        "requests.cpu": 0,
        "requests.memory": 1024,
        "pods": 3,
    }


def test_of_several_quotas_the_least_counts():
    assert left(quota({GPU: "8"}, {GPU: "1"}), quota({GPU: "4", "pods": "9"}, {GPU: "2"})) == {GPU: 2, "pods": 9}


def test_a_quota_that_was_just_made_leaves_all_of_it():
    assert left({"spec": {"hard": {GPU: "8"}}}) == {GPU: 8}


@pytest.mark.parametrize(
    "name", ["requests.storage", "persistentvolumeclaims", "secrets", "requests.ephemeral-storage", "services"]
)
def test_what_no_server_takes_is_left_out(name: str):
    assert left(quota({name: "1"})) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"scopes": ["Terminating"]},
        {"scopes": ["NotTerminating"]},
        {"scopes": ["BestEffort"]},
        {"scopes": ["NotBestEffort", "Terminating"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
        {"scopeSelector": {"matchExpressions": [{}]}},
    ],
)
def test_a_quota_for_a_part_of_all_pods_is_left_out(spec: dict[str, Any]):
    assert left(quota({GPU: "1"}, **spec)) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"scopes": ["NotBestEffort"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "NotBestEffort", "operator": "Exists"}]}},
    ],
)
def test_a_quota_for_pods_that_ask_for_something_counts_what_they_ask_for(spec: dict[str, Any]):
    assert left(quota({GPU: "1", "pods": "2"}, **spec)) == {GPU: 1}


@pytest.mark.parametrize("raw", [None, {}, "x", [None, 1, {"spec": 1, "status": {"hard": {GPU: "many"}}}]])
def test_an_object_that_is_no_quota_says_nothing(raw: Any):
    assert read_remaining_quota(raw) is None
