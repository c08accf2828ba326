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


AMOUNTS = {"limits.cpu": "4", "requests.cpu": "2500m", "limits.memory": "1Gi", "requests.memory": "1G"}
IN_UNITS = {"limits.cpu": 3500, "requests.cpu": 2500, "limits.memory": 2**30, "requests.memory": 10**9}
SHORT = {"cpu": "1", "memory": "1Ki", "count/pods": "3"}


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        pytest.param([quota({GPU: "2"}, {GPU: "3"})], {GPU: 0}, id="less than is used"),
        pytest.param([quota(AMOUNTS, {"limits.cpu": "500m"})], IN_UNITS, id="millicores and bytes"),
        pytest.param(
            [quota(SHORT, {"cpu": "1"})],
            {"requests.cpu": 0, "requests.memory": 1024, "pods": 3},
            id="short words for requests and pods",
        ),
        pytest.param(
            [quota({GPU: "8"}, {GPU: "1"}), quota({GPU: "4", "pods": "9"}, {GPU: "2"})],
            {GPU: 2, "pods": 9},
            id="the least of several",
        ),
        pytest.param([{"spec": {"hard": {GPU: "8"}}}], {GPU: 8}, id="just made"),
        *(
            pytest.param([quota({name: "1"})], None, id=name)
            for name in ("requests.storage", "persistentvolumeclaims", "secrets", "services")
        ),
    ],
)
def test_a_quota_leaves_what_is_not_used_of_what_servers_take(quotas: list[Any], expected: dict[str, int] | None):
    assert left(*quotas) == expected


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
