from __future__ import annotations

from typing import Any

import pytest

from gpuspawner.cli.doctor.facts import ObjectKind
from gpuspawner.cli.doctor.namespace import (
    check_limit_ranges,
    check_namespace,
    check_overlooked_pods,
    check_pod_webhooks,
    check_pull_secrets,
    check_quotas,
    check_scheduler,
)
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
def test_ranges_that_refuse_what_is_offered_are_reported(item: dict[str, Any], expected: list[str]):
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


NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
NOT_KUBE_SYSTEM = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
ELSEWHERE = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
QUEUED_PODS = {"matchExpressions": [{"key": "kueue.x-k8s.io/queue-name", "operator": "Exists"}]}
SILENT = [("fault", "webhook-silent", ("mpod.kb.io",))]


def slices(*endpoints: dict[str, Any], service: str = "kueue-webhook-service") -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service}
    metadata = {"name": f"{service}-1", "namespace": "kueue-system", "labels": labels}
    return {"metadata": metadata, "endpoints": list(endpoints)}


@pytest.mark.parametrize(
    ("hook", "endpoints", "expected"),
    [
        pytest.param({}, [], SILENT, id="no endpoint slice"),
        pytest.param({}, [slices()], SILENT, id="no endpoint"),
        pytest.param({}, [slices({"conditions": {"ready": False}})], SILENT, id="none is ready"),
        pytest.param({}, [slices({"conditions": {"ready": True}})], [], id="one is ready"),
        pytest.param({}, [slices({"conditions": {}})], [], id="ready unless said otherwise"),
        pytest.param({}, [slices({"conditions": {}}, service="other")], SILENT, id="another service answers"),
        pytest.param({"failurePolicy": "Ignore"}, [], [], id="not needed"),
        pytest.param({"namespaceSelector": {"matchExpressions": [NOT_KUBE_SYSTEM]}}, [], SILENT, id="not excluded"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "a"}}}, [], SILENT, id="by label"),
        pytest.param({"namespaceSelector": ELSEWHERE}, [], [], id="another namespace"),
        pytest.param({"rules": [{**NEW_PODS, "operations": ["UPDATE"]}]}, [], [], id="not about new pods"),
        pytest.param({"rules": [{**NEW_PODS, "apiGroups": ["batch"], "resources": ["jobs"]}]}, [], [], id="jobs"),
        pytest.param({"rules": [{key: ["*"] for key in NEW_PODS}]}, [], SILENT, id="about everything"),
        pytest.param({"objectSelector": QUEUED_PODS}, [], SILENT, id="queued pods"),
        pytest.param({"objectSelector": {"matchLabels": {"app": "spark"}}}, [], [], id="other pods"),
        pytest.param({"matchConditions": [{"name": "a", "expression": "false"}]}, [], [], id="conditions"),
        pytest.param({"clientConfig": {"url": "https://hooks.example/"}}, [], [], id="outside the cluster"),
    ],
)
def test_a_webhook_that_new_pods_need_has_to_answer(hook: dict[str, Any], endpoints: list[Any], expected: list[Any]):
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system"}
    usual = {"name": "mpod.kb.io", "clientConfig": {"service": service}, "rules": [NEW_PODS]}
    read = {
        ObjectKind.NAMESPACES: [{"metadata": {"name": "jhub", "labels": {"team": "a"}}}],
        ObjectKind.MUTATING_WEBHOOKS: [{"metadata": {"name": "kueue"}, "webhooks": [{**usual, **hook}]}],
        ObjectKind.ENDPOINT_SLICES: endpoints,
    }
    settings = {"queue": {"local_queue": "q"}}
    assert codes(check_pod_webhooks, facts(read=read, settings=settings)) == expected


def test_webhooks_of_one_service_are_one_finding_and_nothing_is_said_of_unread_services():
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system"}
    hooks = [{"name": name, "clientConfig": {"service": service}, "rules": [NEW_PODS]} for name in ("m", "v")]
    read = {
        ObjectKind.MUTATING_WEBHOOKS: [{"metadata": {"name": "a"}, "webhooks": hooks[:1]}],
        ObjectKind.VALIDATING_WEBHOOKS: [{"metadata": {"name": "b"}, "webhooks": hooks[1:]}],
    }
    assert codes(check_pod_webhooks, facts(read=read)) == []
    (found,) = check_pod_webhooks(facts(read={**read, ObjectKind.ENDPOINT_SLICES: []}))
    assert (found.objects, "every server, with or without a GPU" in found.why) == (("m", "v"), True)


def waiting_pod(name: str, *, scheduler: str = "site", created: str = "2025-12-31T23:59:00Z", **status: Any) -> Any:
    metadata = {"name": name, "namespace": "jhub", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler}, "status": {"phase": "Pending", **status}}


PLACED = {**waiting_pod("c"), "spec": {"schedulerName": "site", "nodeName": "n"}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(
            [waiting_pod("a"), waiting_pod("b"), PLACED],
            [("fault", "scheduler-idle", ("site", "a", "b"))],
            id="two pods of one scheduler",
        ),
        pytest.param([waiting_pod("a", created="2025-12-31T23:59:45Z")], [], id="a new pod"),
        pytest.param([waiting_pod("a", conditions=[{"type": "PodScheduled"}])], [], id="the scheduler looked at it"),
        pytest.param([waiting_pod("a", nominatedNodeName="n")], [], id="room is made for it"),
        pytest.param([PLACED], [], id="it has a node"),
    ],
)
def test_pods_that_no_scheduler_looks_at_are_named_with_their_scheduler(pods: list[Any], expected: list[Any]):
    assert codes(check_overlooked_pods, facts(read={ObjectKind.PODS: pods})) == expected


def lease(name: str, *, renewed: str = "2025-12-31T23:59:58.000000Z", holder: str = "one") -> Any:
    return named(name, spec={"holderIdentity": holder, "renewTime": renewed})


UNKNOWN = [("warning", "scheduler-unknown", ("site",))]
DOWN = [("fault", "scheduler-down", ("site",))]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param({}, UNKNOWN, id="no trace"),
        pytest.param({ObjectKind.PODS: [PLACED]}, [], id="it has placed a pod"),
        pytest.param({ObjectKind.PODS: [waiting_pod("a")]}, [], id="another finding names it"),
        pytest.param({ObjectKind.LEASES: [lease("site-lock")]}, [], id="it renews its Lease"),
        pytest.param({ObjectKind.LEASES: [lease("the-site-scheduler")]}, [], id="a Lease may be its own"),
        pytest.param({ObjectKind.LEASES: [lease("site", renewed="2025-12-31T23:00:00Z")]}, DOWN, id="an old Lease"),
        pytest.param({ObjectKind.LEASES: [lease("site", holder="")]}, DOWN, id="it gave its Lease back"),
        pytest.param({ObjectKind.DEPLOYMENTS: [named("site", status={})]}, DOWN, id="its Deployment has no pod"),
        pytest.param(
            {ObjectKind.DEPLOYMENTS: [named("site", status={"availableReplicas": 1})]}, [], id="its Deployment runs"
        ),
        pytest.param({ObjectKind.HUB_PODS: []}, [], id="nothing is installed yet"),
    ],
)
def test_the_scheduler_of_servers_has_to_run(read: dict[ObjectKind, Any], expected: list[Any]):
    everything: dict[ObjectKind, Any] = {
        ObjectKind.PODS: [],
        ObjectKind.LEASES: [],
        ObjectKind.DEPLOYMENTS: [],
        ObjectKind.HUB_PODS: [named("hub")],
        **read,
    }
    found = facts(requirements=ChartRequirements(scheduler="site"), read=everything)
    assert codes(check_scheduler, found) == expected


@pytest.mark.parametrize(("renewed", "number"), [("2025-12-31T23:59:58Z", 0), ("2025-12-31T23:00:00Z", 1)])
def test_kubernetes_own_scheduler_is_known_by_its_lease(renewed: str, number: int):
    read = {ObjectKind.LEASES: [lease("kube-scheduler", renewed=renewed)]}
    assert len(codes(check_scheduler, facts(read=read))) == number
    assert codes(check_scheduler, facts()) == []
