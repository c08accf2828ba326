from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.namespace import check_limit_ranges, check_namespace, check_pull_secrets, check_quotas
from gpuspawner.cli.values.chart_config import ChartRequirements
from tests.unit.cli.doctor.cases import codes, facts, named


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([named("jhub")], []),
        ([], [("fault", "namespace-missing", ("jhub",))]),
        (
            [{"metadata": {"name": "jhub", "deletionTimestamp": "2026-01-01T00:00:00Z"}}],
            [("fault", "namespace-missing", ("jhub",))],
        ),
    ],
)
def test_a_namespace_that_is_not_there_is_a_fault(found: list[Any], expected: list[Any]):
    assert codes(check_namespace, facts(read={ObjectKind.NAMESPACES: found})) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hard": {"requests.nvidia.com/gpu": "0"}}, ["quota-no-gpu"]),
        ({"hard": {"requests.nvidia.com/gpu": "2", "pods": "10"}}, []),
        ({"hard": {"requests.amd.com/gpu": "0"}}, []),
        ({"hard": {"pods": "0"}}, ["quota-no-pods"]),
        ({"hard": {"count/pods": 0}}, ["quota-no-pods"]),
        ({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}, []),
        ({"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": []}}, ["quota-no-pods"][:0]),
        ({}, []),
    ],
)
def test_quotas_that_leave_nothing_are_faults(spec: dict[str, Any], expected: list[str]):
    found = codes(check_quotas, facts(read={ObjectKind.QUOTAS: [named("q", spec=spec)]}))
    assert found == [("fault", code, ("q",)) for code in expected]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"max": {"memory": "64Gi", "cpu": "16"}}, []),
        ({"max": {"memory": "2Gi"}}, ["warning"]),
        ({"max": {"memory": "256Mi"}}, ["fault"]),
        ({"min": {"cpu": "1"}}, ["warning"]),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, []),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, ["fault"]),
        ({"maxLimitRequestRatio": {"cpu": "nonsense"}}, []),
        ({"max": {"nvidia.com/gpu": "0"}}, ["fault"]),
        ({"max": {"nvidia.com/gpu": "1"}}, []),
        ({"type": "PersistentVolumeClaim", "max": {"memory": "1"}}, []),
    ],
)
def test_ranges_that_refuse_what_is_offered_are_told(item: dict[str, Any], expected: list[str]):
    settings = {"cpu": {"max": 4, "guarantee": 0.5}, "memory": {"max": "4G"}}
    found = named("r", spec={"limits": [{"type": "Container", **item}]})
    expected_findings = [(severity, "limit-range", ("r",)) for severity in expected]
    assert (
        codes(check_limit_ranges, facts(settings=settings, read={ObjectKind.LIMIT_RANGES: [found]}))
        == expected_findings
    )


def test_pull_secrets_that_are_not_there_are_faults():
    wishes = ChartRequirements(pull_secrets=("there", "gone"))
    read = {ObjectKind.SECRETS: [named("there")]}
    assert codes(check_pull_secrets, facts(requirements=wishes, read=read)) == [
        ("fault", "pull-secret-missing", ("gone",))
    ]
    assert codes(check_pull_secrets, facts(requirements=wishes)) == []
    assert codes(check_pull_secrets, facts(read=read)) == []
